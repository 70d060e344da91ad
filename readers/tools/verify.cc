#include "readers/verify.h"

#include <filesystem>
#include <system_error>

#include "base/status.h"
#include "readers/damage/parts.h"
#include "readers/example/parser.h"
#include "readers/http_options.h"
#include "readers/image/labels.h"
#include "readers/image_header.h"
#include "readers/open_file.h"
#include "readers/tools/scan.h"

namespace millrace::readers {
namespace {

absl::Status CheckPayload(const Record& record, const std::string& file) {
  internal::WireError error;
  if (internal::CheckExample(record.payload, &error)) return absl::OkStatus();
  RecordError place;
  place.file = file;
  place.offset = static_cast<int64_t>(record.ref.offset);
  place.ordinal = static_cast<int64_t>(record.ref.ordinal);
  place.reason = RecordErrorReason::kExample;
  return MakeRecordError(absl::StatusCode::kDataLoss, place,
                         "not a tf.train.Example: " + error.ToString());
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return !IsUrl(path) && std::filesystem::is_directory(path, error);
}

// One file after the other, into a report.
class Verifier {
 public:
  Verifier(const VerifyOptions& options, internal::ScanMeter& meter, VerifyReport& report)
      : options_(options), meter_(meter), report_(report) {}

  void File(const std::string& file) {
    const uint64_t damaged_before = report_.num_damaged;
    const ContainerOptions container = options_.container.value_or(ContainerOfName(file));
    absl::Status read;
    if (IsFolder(file)) {
      read = Images(file);
    } else if (container.kind == ContainerKind::kTfRecord) {
      read = Frames(file);
    } else {
      read = Parts(file, container);
    }
    if (!read.ok()) Damage(read, file);
    ++report_.num_files;
    if (report_.num_damaged > damaged_before) ++report_.num_damaged_files;
  }

 private:
  void Damage(const absl::Status& status, const std::string& file) {
    ++report_.num_damaged;
    if (report_.places.size() >= options_.max_places) return;
    report_.places.push_back(internal::ToDamagedPlace(status, file));
  }
  void Intact(uint64_t payload_bytes) {
    ++report_.num_records;
    report_.payload_bytes += payload_bytes;
  }

  absl::Status Frames(const std::string& file) {
    const auto on_damage = [&](const absl::Status& status) { Damage(status, file); };
    const auto on_record = [&](const Record& record) {
      const absl::Status status =
          options_.check_examples ? CheckPayload(record, file) : absl::OkStatus();
      if (!status.ok()) return on_damage(status);
      Intact(record.payload.size());
    };
    return internal::ScanFile(file,
                              {.compression = options_.compression,
                               .max_record_bytes = options_.max_record_bytes,
                               .resync = true},
                              meter_, on_record, on_damage)
        .unreadable;
  }

  absl::Status Parts(const std::string& file, const ContainerOptions& container) {
    MILLRACE_ASSIGN_OR_RETURN(const InflatedShard shard,
                              OpenInflated(file, options_.compression, container));
    const auto on_part = [&](const ShardPart& part) {
      if (shard.compression == Compression::kNone) meter_.InFile(part.offset + part.bytes);
      part.damage.ok() ? Intact(part.payload.size()) : Damage(part.damage, file);
      return absl::OkStatus();
    };
    return WalkParts(shard, container, options_.max_record_bytes, on_part);
  }

  // Each is a file and a record of its own, as a pipeline has them.
  absl::Status Images(const std::string& folder) {
    MILLRACE_ASSIGN_OR_RETURN(const internal::ImageListing listing, internal::ListImages(folder));
    const auto note = [&](std::string_view text) { report_.notes.emplace_back(text); };
    MILLRACE_RETURN_IF_ERROR(internal::TellLeftOut(listing, {.warn = note}, folder));
    for (const std::string& path : listing.paths) {
      const std::string file = folder + (folder.ends_with('/') ? "" : "/") + path;
      const auto bytes = ReadWholeFile(file, internal::kMaxImageBytes);
      const auto header = bytes.ok() ? ReadImageHeader(*bytes) : bytes.status();
      if (header.ok()) {
        Intact(bytes->size());
        continue;
      }
      RecordError place;
      place.file = file;
      place.offset = 0;
      place.ordinal = 0;
      place.reason = bytes.ok() ? RecordErrorReason::kImage : RecordErrorReason::kUnknown;
      Damage(MakeRecordError(absl::StatusCode::kDataLoss, place, ToStd(header.status().message())),
             file);
    }
    return absl::OkStatus();
  }

  const VerifyOptions& options_;
  internal::ScanMeter& meter_;
  VerifyReport& report_;
};

}  // namespace

absl::StatusOr<VerifyReport> Verify(std::span<const std::string> files,
                                    const VerifyOptions& options, const ScanProgress& progress) {
  if (files.empty()) return absl::InvalidArgumentError("verify: no files");
  VerifyReport report;
  internal::ScanMeter meter(files, progress);
  Verifier verifier(options, meter, report);
  for (size_t i = 0; i < files.size(); ++i) {
    verifier.File(files[i]);
    meter.FinishFile(i);
  }
  return report;
}

}  // namespace millrace::readers
