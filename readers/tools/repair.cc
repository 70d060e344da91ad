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
#include "base/little_endian.h"
#include "base/made_folder.h"
#include "base/status.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/tfrecord.h"
#include "readers/example/parser.h"
#include "readers/http_options.h"
#include "readers/inflate/byte_source.h"
#include "readers/open_file.h"
#include "readers/record_reader.h"
#include "readers/record_writer.h"
#include "readers/tools/meter.h"
#include "readers/tools/repair.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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

ContainerOptions ContainerOf(const std::string& file, const RepairOptions& options) {
  return options.container.value_or(ContainerOfName(file));
}

// INVALID_ARGUMENT: nothing can be left out of such a file.
absl::Status CheckRepairable(const std::string& file, const ContainerOptions& container) {
  if (container.kind != ContainerKind::kFixedLength && container.kind != ContainerKind::kIdx) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", ToString(container),
                   " cannot be repaired: none of them can be told from damage, nor be left out"));
}

// One file on its way into its copy.
class FileRepair {
 public:
  FileRepair(const RepairOptions& options, internal::FileMeter& meter, RepairedFile& report)
      : options_(options), meter_(meter), report_(report) {
    for (const RecordError& error : options.listed) {
      if (IsOfContent(error.reason) && IsSameName(error.file, report.file)) {
        listed_[error.offset] = error;
      }
    }
  }

  absl::Status Run() {
    const ContainerOptions container = ContainerOf(report_.file, options_);
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
    ResyncWalk walk(file, options_.max_record_bytes);
    for (int64_t ordinal = 0;; ++ordinal) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<Stretch> stretch, walk.Next());
      if (!stretch.has_value()) return absl::OkStatus();
      RecordError where;
      where.file = report_.file;
      where.offset = static_cast<int64_t>(stretch->offset);
      where.ordinal = ordinal;
      MILLRACE_RETURN_IF_ERROR(stretch->framed ? CopyFrame(file, *stretch, where)
                                               : CopyStretch(file, *stretch, where));
      meter_.Advance(stretch->offset + stretch->bytes);
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
  internal::FileMeter& meter_;
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

absl::StatusOr<std::vector<RepairedFile>> Repair(
    std::span<const std::string> files, const std::string& folder, const RepairOptions& options,
    const std::function<void(const RepairedFile&)>& on_file) {
  for (const std::string& file : files) {
    MILLRACE_RETURN_IF_ERROR(CheckRepairable(file, ContainerOf(file, options)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const MadeFolder made, MadeFolder::Make(folder));
  std::vector<RepairedFile> repaired;
  std::set<std::string> names;
  for (const std::string& file : files) {
    RepairedFile& report = repaired.emplace_back();
    report.file = file;
    MILLRACE_ASSIGN_OR_RETURN(report.out, OutOf(file, folder));
    if (names.insert(report.out).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": a second file of this name"));
  }
  internal::ScanMeter meter(files, options.progress);
  for (size_t i = 0; i < repaired.size(); ++i) {
    internal::FileMeter in_file(meter, i);
    MILLRACE_RETURN_IF_ERROR(FileRepair(options, in_file, repaired[i]).Run());
    in_file.Finish();
    if (on_file) on_file(repaired[i]);
  }
  return repaired;
}

}  // namespace millrace::readers
