#include "readers/verify.h"

#include "readers/example_parser_internal.h"
#include "readers/scan_internal.h"

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

}  // namespace

absl::StatusOr<VerifyReport> Verify(std::span<const std::string> files,
                                    const VerifyOptions& options, const ScanProgress& progress) {
  if (files.empty()) return absl::InvalidArgumentError("verify: no files");
  VerifyReport report;
  internal::ScanMeter meter(files, progress);
  for (size_t i = 0; i < files.size(); ++i) {
    const uint64_t damaged_before = report.num_damaged;
    const auto on_damage = [&](const absl::Status& status) {
      ++report.num_damaged;
      if (report.places.size() >= options.max_places) return;
      report.places.push_back(internal::ToDamagedPlace(status, files[i]));
    };
    const auto on_record = [&](const Record& record) {
      const absl::Status status =
          options.check_examples ? CheckPayload(record, files[i]) : absl::OkStatus();
      if (!status.ok()) return on_damage(status);
      ++report.num_records;
      report.payload_bytes += record.payload.size();
    };
    const internal::FileFacts facts =
        internal::ScanFile(files[i],
                           {.compression = options.compression,
                            .max_record_bytes = options.max_record_bytes,
                            .resync = true},
                           meter, on_record, on_damage);
    if (!facts.unreadable.ok()) on_damage(facts.unreadable);
    meter.FinishFile(i);
    ++report.num_files;
    if (report.num_damaged > damaged_before) ++report.num_damaged_files;
  }
  return report;
}

}  // namespace millrace::readers
