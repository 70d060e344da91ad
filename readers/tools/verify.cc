#include "readers/verify.h"

#include "base/status.h"
#include "readers/example/parser.h"
#include "readers/scan.h"
#include "readers/tools/meter.h"

namespace millrace::readers {
namespace {

absl::Status CheckExample(const ScannedRecord& record) {
  internal::WireError error;
  if (internal::CheckExample(record.payload, &error)) return absl::OkStatus();
  RecordError place;
  place.file = record.file;
  place.offset = static_cast<int64_t>(record.offset);
  place.ordinal = static_cast<int64_t>(record.ordinal);
  place.reason = RecordErrorReason::kExample;
  return MakeRecordError(absl::StatusCode::kDataLoss, place,
                         "not a tf.train.Example: " + error.ToString());
}

// One file after the other, into a report.
class Verifier {
 public:
  Verifier(const VerifyOptions& options, internal::ScanMeter& meter, VerifyReport& report)
      : options_(options), meter_(meter), report_(report) {}

  void File(const std::string& file) {
    const uint64_t damaged_before = report_.num_damaged;
    const ScanKind kind = KindOf(file, options_.container);
    const bool holds_examples = !kind.is_folder && kind.container.kind == ContainerKind::kTfRecord;
    const ScanVisitor visitor = {.on_record =
                                     [&](const ScannedRecord& record) {
                                       Take(record, options_.check_examples && holds_examples,
                                            file);
                                       return true;
                                     },
                                 .on_damage =
                                     [&](const absl::Status& status) {
                                       Damage(status, file);
                                       return true;
                                     },
                                 .advanced = [&](uint64_t bytes) { meter_.InFile(bytes); }};
    const ScanFacts facts = Scan(file,
                                 {.compression = options_.compression,
                                  .max_record_bytes = options_.max_record_bytes,
                                  .container = options_.container},
                                 visitor);
    if (!facts.unreadable.ok()) Damage(facts.unreadable, file);
    report_.notes.insert(report_.notes.end(), facts.notes.begin(), facts.notes.end());
    ++report_.num_files;
    if (report_.num_damaged > damaged_before) ++report_.num_damaged_files;
  }

 private:
  void Take(const ScannedRecord& record, bool is_example, const std::string& file) {
    const absl::Status status = is_example ? CheckExample(record) : absl::OkStatus();
    if (!status.ok()) return Damage(status, file);
    ++report_.num_records;
    report_.payload_bytes += record.payload.size();
  }

  void Damage(const absl::Status& status, const std::string& file) {
    ++report_.num_damaged;
    if (report_.places.size() >= options_.max_places) return;
    report_.places.push_back(internal::ToDamagedPlace(status, file));
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
