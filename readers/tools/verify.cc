#include "readers/verify.h"

#include "base/status.h"
#include "readers/example/parser.h"
#include "readers/scan.h"
#include "readers/tools/meter.h"

namespace millrace::readers {
namespace {

absl::Status BadRecord(const ScannedRecord& record, std::string_view text) {
  RecordError place;
  place.file = record.file;
  place.offset = static_cast<int64_t>(record.offset);
  place.ordinal = static_cast<int64_t>(record.ordinal);
  place.reason = RecordErrorReason::kExample;
  return MakeRecordError(absl::StatusCode::kDataLoss, place, text);
}

absl::Status CheckExample(const ScannedRecord& record) {
  internal::WireError error;
  if (internal::CheckExample(record.payload, &error)) return absl::OkStatus();
  return BadRecord(record, "not a tf.train.Example: " + error.ToString());
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
    checks_examples_ = options_.check_examples && holds_examples;
    no_names_ = absl::OkStatus();
    const ScanVisitor visitor = {.on_columns =
                                     [&](const auto& names) {
                                       TakeColumns(names, file);
                                       return absl::OkStatus();
                                     },
                                 .on_record =
                                     [&](const ScannedRecord& record) {
                                       Take(record, file);
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
    Unreadable(facts, file);
    // A row of names that is damaged is told by the walk.
    if (!no_names_.ok() && report_.num_damaged == damaged_before) Damage(no_names_, file);
    report_.notes.insert(report_.notes.end(), facts.notes.begin(), facts.notes.end());
    ++report_.num_files;
    if (report_.num_damaged > damaged_before) ++report_.num_damaged_files;
  }

 private:
  void TakeColumns(const absl::StatusOr<std::vector<std::string>>& names, const std::string& file) {
    no_names_ = names.status();
    const absl::Status columns = columns_.Check(file, names);
    if (names.ok() && !columns.ok()) Damage(columns, file);
  }

  void Take(const ScannedRecord& record, const std::string& file) {
    const absl::Status status = Check(record);
    if (!status.ok()) return Damage(status, file);
    ++report_.num_records;
    report_.payload_bytes += record.payload.size();
  }

  absl::Status Check(const ScannedRecord& record) {
    return checks_examples_ ? CheckExample(record) : absl::OkStatus();
  }

  // An error of the file, and not of the bytes that were read, is no damage.
  void Unreadable(const ScanFacts& facts, const std::string& file) {
    if (absl::IsDataLoss(facts.unreadable)) {
      Damage(facts.unreadable, file);
    } else if (!facts.unreadable.ok()) {
      report_.unreadable.push_back({file, std::string(facts.unreadable.message())});
    }
    report_.unreadable.insert(report_.unreadable.end(), facts.unreadable_images.begin(),
                              facts.unreadable_images.end());
  }

  void Damage(const absl::Status& status, const std::string& file) {
    ++report_.num_damaged;
    if (report_.places.size() >= options_.max_places) return;
    report_.places.push_back(internal::ToDamagedPlace(status, file));
  }

  const VerifyOptions& options_;
  internal::ScanMeter& meter_;
  VerifyReport& report_;
  SameColumns columns_;
  // Of the file that is read.
  bool checks_examples_ = false;
  absl::Status no_names_;  // why its row of names tells none
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
