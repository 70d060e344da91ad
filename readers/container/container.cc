#include "readers/container.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/container/container.h"
#include "readers/foreign_kind.h"
#include "readers/inflate/byte_source.h"

namespace millrace::readers {

std::unique_ptr<const Container> MakeContainer(const ContainerOptions& options, bool verify_crc,
                                               bool judges_rows) {
  switch (options.kind) {
    case ContainerKind::kTfRecord:
      break;
    case ContainerKind::kFixedLength:
      return MakeFixedLengthContainer(options);
    case ContainerKind::kText:
      return MakeTextContainer(options);
    case ContainerKind::kCsv:
      return MakeCsvContainer(options, judges_rows);
    case ContainerKind::kTar:
      return MakeTarContainer();
    case ContainerKind::kIdx:
      return MakeIdxContainer();
  }
  return MakeTfRecordContainer(verify_crc);
}

std::span<const ContainerName> ContainerNames() {
  static const auto* const names = new std::vector<ContainerName>{
      {ContainerKind::kTfRecord, "tfrecord", {".tfrecord", ".tfrecords"}},
      {ContainerKind::kFixedLength, "fixed_length", {}},
      {ContainerKind::kText, "text", {".txt", ".jsonl", ".ndjson"}},
      {ContainerKind::kCsv, "csv", {".csv", ".tsv"}},
      {ContainerKind::kTar, "tar", {".tar"}},
      {ContainerKind::kIdx, "idx", {"-ubyte"}},
  };
  return *names;
}

ContainerOptions ContainerOfName(std::string_view path) {
  path = WithoutCompressionEnding(path);
  ContainerOptions options;
  for (const ContainerName& name : ContainerNames()) {
    for (const std::string_view ending : name.endings) {
      if (path.ends_with(ending)) options.kind = name.kind;
    }
  }
  if (path.ends_with(".tsv")) options.delimiter = '\t';
  options.skips_blank = path.ends_with(".jsonl") || path.ends_with(".ndjson");
  return options;
}

std::string ToString(const ContainerOptions& options) {
  switch (options.kind) {
    case ContainerKind::kTfRecord:
      return "TFRecord";
    case ContainerKind::kFixedLength:
      return absl::StrCat("records of ", options.record_bytes, " B, header ", options.header_bytes,
                          " B, footer ", options.footer_bytes, " B");
    case ContainerKind::kText:
      return options.skips_blank ? "lines of text that are not blank" : "lines of text";
    case ContainerKind::kCsv:
      return absl::StrCat("rows of CSV", options.has_header ? ", the first one names columns" : "",
                          options.delimiter == ',' ? "" : ", delimiter ",
                          options.delimiter == ',' ? "" : std::string(1, options.delimiter));
    case ContainerKind::kTar:
      return "samples of tar";
    case ContainerKind::kIdx:
      return "elements of IDX";
  }
  return "";
}

bool HasNoMagic(std::span<const std::byte> first) {
  const Compression compression = CompressionOf(first);
  return compression == Compression::kNone || compression == Compression::kZlib;
}

absl::Status CheckNoPointer(const RandomAccessFile& file) {
  std::array<std::byte, kTellingTextBytes> bytes = {};
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
  if (!IsGitLfsPointer({reinterpret_cast<const char*>(bytes.data()), got})) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.path(), ": ", ToAbsl(kIsGitLfsPointer)));
}

absl::Status CheckPlain(const RandomAccessFile& file, const WalkOptions& options) {
  if (!options.plain) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckNoPointer(file));
  std::array<std::byte, kProbeBytes> bytes = {};
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
  const auto first = std::span<const std::byte>(bytes).first(got);
  if (HasNoMagic(first)) return absl::OkStatus();
  return DamagedRecord(file.path(), RecordRef(), RecordErrorReason::kWrongCompression,
                       absl::StrCat("this is a ", ToAbsl(CompressionName(CompressionOf(first))),
                                    " stream; compression is \"none\""));
}

namespace {

bool IsControl(char c) { return c >= 0 && c < ' ' && (c < '\t' || c > '\r'); }

// The format that lines or rows of a container have; "text" if they may be any.
std::string_view FormatOfLines(const ContainerOptions& container) {
  if (container.kind == ContainerKind::kCsv) return "CSV";
  return container.skips_blank ? "JSON lines" : "text";
}

// The fault of a file of lines or rows by its first bytes; "" if there is none.
std::string WhyNoLines(std::string_view first, const ContainerOptions& container) {
  const std::string_view format = FormatOfLines(container);
  const bool is_page = IsPage(first);
  if (is_page && format == "text") return "";  // lines of HTML are lines
  const std::string_view why = is_page ? std::string_view() : WhyNotText(first);
  if (!why.empty()) return std::string(why);
  const bool is_foreign = is_page || std::ranges::any_of(first, IsControl);
  const std::string but = is_foreign ? ButForeign(first) : "";
  return but.empty() ? "" : absl::StrCat("not ", ToAbsl(format), but);
}

}  // namespace

absl::StatusOr<uint64_t> BeginOfText(const RandomAccessFile& file, const WalkOptions& options,
                                     const ContainerOptions& container) {
  MILLRACE_RETURN_IF_ERROR(CheckPlain(file, options));
  std::array<std::byte, kTellingTextBytes> bytes = {};
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, bytes));
  const std::string_view first(reinterpret_cast<const char*>(bytes.data()), got);
  const std::string why = WhyNoLines(first, container);
  if (why.empty()) return ByteOrderMarkBytes(first);
  return DamagedRecord(file.path(), RecordRef(), RecordErrorReason::kExample, why);
}

absl::Status DamagedRecord(const std::string& file, const RecordRef& ref, RecordErrorReason reason,
                           std::string_view text) {
  RecordError error;
  error.file = file;
  error.offset = static_cast<int64_t>(ref.offset);
  error.ordinal = static_cast<int64_t>(ref.ordinal);
  error.reason = reason;
  return MakeRecordError(absl::StatusCode::kDataLoss, error, text);
}

}  // namespace millrace::readers
