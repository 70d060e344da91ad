#include "readers/repair.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io.h"
#include "base/status.h"
#include "readers/byte_source.h"
#include "readers/example_parser_internal.h"
#include "readers/http_options.h"
#include "readers/local_file.h"
#include "readers/record_reader.h"
#include "readers/record_source.h"
#include "readers/record_writer.h"
#include "readers/repair_internal.h"
#include "readers/salvage.h"
#include "readers/sequence_parser_internal.h"
#include "readers/tfrecord_format.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether a pipeline, not the reader, found fault with the record.
bool IsOfContent(RecordErrorReason reason) {
  return reason == RecordErrorReason::kExample || reason == RecordErrorReason::kFeature ||
         reason == RecordErrorReason::kImage || reason == RecordErrorReason::kValue;
}

absl::Status DamageAt(RecordError where, RecordErrorReason reason, std::string_view text) {
  where.reason = reason;
  where.position = -1;
  return MakeRecordError(absl::StatusCode::kDataLoss, where, text);
}

// What is wrong with the frame at a place of a plain file.
absl::Status CheckFrame(const RandomAccessFile& file, const RecordError& place, uint64_t max_bytes,
                        std::vector<std::byte>* payload) {
  const auto offset = static_cast<uint64_t>(place.offset);
  if (place.offset < 0 || offset >= file.size()) {
    return DamageAt(place, RecordErrorReason::kTruncatedHeader, "the file ends before it");
  }
  if (file.size() - offset < kFrameBytes) {
    return DamageAt(place, RecordErrorReason::kTruncatedHeader, "the file ends inside a header");
  }
  std::byte bytes[kHeaderBytes];
  MILLRACE_RETURN_IF_ERROR(ReadFully(file, offset, bytes));
  const FrameHeader header = DecodeHeader(bytes);
  if (!header.crc_ok) {
    return DamageAt(place, RecordErrorReason::kLengthCrc, "the CRC of the length does not match");
  }
  if (header.length > std::min(max_bytes, kMaxLength)) {
    return DamageAt(place, RecordErrorReason::kAbsurdLength,
                    absl::StrCat("a record of ", header.length, " bytes"));
  }
  if (header.length > file.size() - offset - kFrameBytes) {
    return DamageAt(place, RecordErrorReason::kTruncatedPayload, "the file ends inside it");
  }
  const absl::Status status = ReadFramedPayload(file, offset, header.length, payload);
  if (!absl::IsDataLoss(status)) return status;
  return DamageAt(place, RecordErrorReason::kDataCrc, ToStd(status.message()));
}

// Of a record whose bytes are whole.
absl::Status CheckContent(const RecordError& listed, std::string_view payload) {
  if (!IsOfContent(listed.reason)) return absl::OkStatus();
  internal::WireError error;
  if (!internal::CheckExample(payload, &error)) {
    return DamageAt(listed, RecordErrorReason::kExample,
                    "not a tf.train.Example: " + error.ToString());
  }
  if (!internal::CheckSequenceExample(payload, &error)) {
    return DamageAt(listed, RecordErrorReason::kExample,
                    "not a tf.train.SequenceExample: " + error.ToString());
  }
  if (listed.reason == RecordErrorReason::kExample) return absl::OkStatus();
  return DamageAt(listed, listed.reason, "whole, but a pipeline could not use it");
}

PlaceCheck Checked(const RecordError& listed, const absl::Status& status) {
  return {listed, !status.ok(), std::string(status.message())};
}

// What a reader that goes through the file says at each offset where it stops.
class CompressedCheck {
 public:
  CompressedCheck(const std::string& path, std::span<const RecordError* const> places,
                  uint64_t max_bytes) {
    for (const RecordError* place : places) wanted_[place->offset] = place;
    auto reader = OpenTfRecordReader(path, {.max_record_bytes = max_bytes, .resync = true});
    end_ = reader.status();
    while (end_.ok() && found_.size() < wanted_.size()) {
      const auto record = (*reader)->Next();
      if (!record.ok()) {
        const std::optional<RecordError> error = GetRecordError(record.status());
        if (error.has_value() && wanted_.contains(error->offset)) {
          found_[error->offset] = record.status();
        }
        if (!(*reader)->ReadsOn()) end_ = record.status();
        continue;
      }
      if (!record->has_value()) break;
      const auto place = wanted_.find(static_cast<int64_t>((*record)->ref.offset));
      if (place == wanted_.end()) continue;
      found_[place->first] = CheckContent(*place->second, (*record)->payload);
    }
  }
  absl::Status At(const RecordError& place) const {
    const auto found = found_.find(place.offset);
    if (found != found_.end()) return found->second;
    if (!end_.ok()) return end_;
    return DamageAt(place, RecordErrorReason::kTruncatedHeader, "no record begins there");
  }

 private:
  std::map<int64_t, const RecordError*> wanted_;
  std::map<int64_t, absl::Status> found_;
  absl::Status end_;
};

// The places of one file; `checks` has one for each.
void VerifyFile(const std::string& path, std::span<const RecordError* const> places,
                uint64_t max_bytes, std::span<PlaceCheck* const> checks) {
  const auto file = OpenFile(path);
  absl::Status status = file.status();
  Compression compression = Compression::kNone;
  if (status.ok()) {
    const auto detected = DetectCompression(**file);
    status = detected.status();
    if (detected.ok()) compression = *detected;
  }
  std::optional<CompressedCheck> compressed;
  if (status.ok() && compression != Compression::kNone) {
    compressed.emplace(path, places, max_bytes);
  }
  std::vector<std::byte> payload;
  for (size_t i = 0; i < places.size(); ++i) {
    absl::Status at = status;
    if (at.ok() && compressed.has_value()) {
      at = compressed->At(*places[i]);
    } else if (at.ok()) {
      at = CheckFrame(**file, *places[i], max_bytes, &payload);
      if (at.ok()) at = CheckContent(*places[i], TextOf(payload));
    }
    *checks[i] = Checked(*places[i], at);
  }
}

// Plans may spell a name otherwise than a command does.
bool IsSameName(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const auto normal = [](const std::string& name) {
    std::error_code error;
    return std::filesystem::absolute(name, error).lexically_normal();
  };
  return !IsUrl(one) && !IsUrl(other) && normal(one) == normal(other);
}

// One file on its way into its copy.
class FileRepair {
 public:
  FileRepair(const RepairOptions& options, RepairedFile& report)
      : options_(options), report_(report) {
    for (const RecordError& error : options.listed) {
      if (IsOfContent(error.reason) && IsSameName(error.file, report.file)) {
        listed_[error.offset] = error;
      }
    }
  }

  absl::Status Run() {
    const ContainerOptions container = options_.container.value_or(ContainerOfName(report_.file));
    if (container.kind != ContainerKind::kTfRecord) {
      return RepairParts(container, options_, listed_, report_);
    }
    MILLRACE_ASSIGN_OR_RETURN(auto file, OpenFile(report_.file));
    Compression compression = options_.compression;
    if (compression == Compression::kAuto) {
      MILLRACE_ASSIGN_OR_RETURN(compression, DetectCompression(*file));
    }
    TfRecordWriterOptions writer;
    writer.compression = compression;
    MILLRACE_ASSIGN_OR_RETURN(writer_, TfRecordWriter::Open(report_.out, writer));
    MILLRACE_RETURN_IF_ERROR(compression == Compression::kNone ? CopyPlain(*file)
                                                               : CopyCompressed(compression));
    return writer_->Close();
  }

 private:
  absl::Status CopyPlain(const RandomAccessFile& file) {
    SalvageWalk walk(file, options_.max_record_bytes);
    for (int64_t ordinal = 0;; ++ordinal) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<Stretch> stretch, walk.Next());
      if (!stretch.has_value()) return absl::OkStatus();
      RecordError where;
      where.file = report_.file;
      where.offset = static_cast<int64_t>(stretch->offset);
      where.ordinal = ordinal;
      MILLRACE_RETURN_IF_ERROR(stretch->framed ? CopyFrame(file, *stretch, where)
                                               : CopyStretch(file, *stretch, where));
    }
  }

  absl::Status CopyFrame(const RandomAccessFile& file, const Stretch& stretch,
                         const RecordError& where) {
    const absl::Status read =
        ReadFramedPayload(file, stretch.offset, stretch.bytes - kFrameBytes, &payload_);
    if (read.ok()) return Keep(TextOf(payload_), where);
    if (!absl::IsDataLoss(read)) return read;
    internal::WireError error;
    if (options_.reframe && internal::CheckExample(TextOf(payload_), &error)) {
      return Reframe(TextOf(payload_));
    }
    Drop(DamageAt(where, RecordErrorReason::kDataCrc, ToStd(read.message())));
    return absl::OkStatus();
  }

  // The CRC of a length may be all that is wrong.
  absl::Status CopyStretch(const RandomAccessFile& file, const Stretch& stretch,
                           const RecordError& where) {
    if (options_.reframe && stretch.bytes >= kFrameBytes) {
      std::byte length[sizeof(uint64_t)];
      MILLRACE_RETURN_IF_ERROR(ReadFully(file, stretch.offset, length));
      if (LoadU64(length) == stretch.bytes - kFrameBytes) {
        const absl::Status read =
            ReadFramedPayload(file, stretch.offset, stretch.bytes - kFrameBytes, &payload_);
        if (read.ok()) return Reframe(TextOf(payload_));
        if (!absl::IsDataLoss(read)) return read;
      }
    }
    Drop(DamageAt(where, stretch.reason,
                  ToStd(absl::StrCat("no record in ", stretch.bytes, " bytes"))));
    return absl::OkStatus();
  }

  absl::Status CopyCompressed(Compression compression) {
    MILLRACE_ASSIGN_OR_RETURN(
        auto reader,
        OpenTfRecordReader(report_.file, {.compression = compression,
                                          .max_record_bytes = options_.max_record_bytes,
                                          .resync = true}));
    while (true) {
      const auto record = reader->Next();
      if (!record.ok()) {
        if (!GetRecordError(record.status()).has_value()) return record.status();
        Drop(record.status());
        if (!reader->ReadsOn()) return absl::OkStatus();
        continue;
      }
      if (!record->has_value()) return absl::OkStatus();
      RecordError where;
      where.file = report_.file;
      where.offset = static_cast<int64_t>((*record)->ref.offset);
      where.ordinal = static_cast<int64_t>((*record)->ref.ordinal);
      MILLRACE_RETURN_IF_ERROR(Keep((*record)->payload, where));
    }
  }

  absl::Status Keep(std::string_view payload, const RecordError& where) {
    const auto listed = listed_.find(where.offset);
    if (listed != listed_.end()) {
      Drop(DamageAt(where, listed->second.reason, "the quarantine names it"));
      return absl::OkStatus();
    }
    ++report_.num_kept;
    return writer_->Write(payload);
  }
  absl::Status Reframe(std::string_view payload) {
    ++report_.num_kept;
    ++report_.num_reframed;
    return writer_->Write(payload);
  }
  void Drop(const absl::Status& status) {
    report_.dropped.push_back({*GetRecordError(status), std::string(status.message())});
  }

  const RepairOptions& options_;
  RepairedFile& report_;
  std::map<int64_t, RecordError> listed_;  // by offset
  std::unique_ptr<TfRecordWriter> writer_;
  std::vector<std::byte> payload_;
};

absl::StatusOr<std::string> OutOf(const std::string& file, const std::string& folder) {
  const fs::path out = fs::path(folder) / fs::path(file).filename();
  std::error_code error;
  if (fs::equivalent(fs::path(file), out, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " lies in ", folder, "; its copy would take its place"));
  }
  if (fs::exists(out, error)) {
    return absl::AlreadyExistsError(absl::StrCat(out.string(), " exists"));
  }
  return out.string();
}

}  // namespace

std::vector<PlaceCheck> VerifyPlaces(std::span<const RecordError> places,
                                     uint64_t max_record_bytes) {
  std::vector<PlaceCheck> checks(places.size());
  std::map<std::string, std::vector<size_t>> by_file;
  for (size_t i = 0; i < places.size(); ++i) by_file[places[i].file].push_back(i);
  for (const auto& [path, indices] : by_file) {
    std::vector<const RecordError*> listed;
    std::vector<PlaceCheck*> slots;
    for (const size_t i : indices) {
      listed.push_back(&places[i]);
      slots.push_back(&checks[i]);
    }
    VerifyFile(path, listed, max_record_bytes, slots);
  }
  return checks;
}

absl::StatusOr<std::vector<RepairedFile>> Repair(std::span<const std::string> files,
                                                 const std::string& folder,
                                                 const RepairOptions& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), "mkdir", folder);
  std::vector<RepairedFile> repaired;
  std::set<std::string> names;
  for (const std::string& file : files) {
    RepairedFile& report = repaired.emplace_back();
    report.file = file;
    MILLRACE_ASSIGN_OR_RETURN(report.out, OutOf(file, folder));
    if (names.insert(report.out).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": a second file of this name"));
  }
  for (RepairedFile& report : repaired) {
    MILLRACE_RETURN_IF_ERROR(FileRepair(options, report).Run());
  }
  return repaired;
}

}  // namespace millrace::readers
