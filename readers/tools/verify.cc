#include "readers/verify.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/host.h"
#include "base/mutex.h"
#include "base/status.h"
#include "readers/example/parser.h"
#include "readers/parallel/parallel.h"
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

using Columns = absl::StatusOr<std::vector<std::string>>;

void AddDamage(const absl::Status& status, const std::string& file, const VerifyOptions& options,
               VerifyReport& report) {
  ++report.num_damaged;
  if (report.places.size() >= options.max_places) return;
  report.places.push_back(internal::ToDamagedPlace(status, file));
}

// One file.
class FileVerifier {
 public:
  struct Result {
    VerifyReport report;             // of this file alone
    std::optional<Columns> columns;  // what its first row says, if it is a row of names
  };

  // All outlive it.
  FileVerifier(const std::string& file, const VerifyOptions& options, internal::FileMeter& meter)
      : file_(file), options_(options), meter_(meter) {}

  Result Run() && {
    const ScanKind kind = KindOf(file_, options_.container);
    const bool holds_examples = !kind.is_folder && kind.container.kind == ContainerKind::kTfRecord;
    checks_examples_ = options_.check_examples && holds_examples;
    const ScanVisitor visitor = {.on_columns =
                                     [&](const Columns& names) {
                                       result_.columns = names;
                                       return absl::OkStatus();
                                     },
                                 .on_record =
                                     [&](const ScannedRecord& record) {
                                       Take(record);
                                       return true;
                                     },
                                 .on_damage =
                                     [&](const absl::Status& status) {
                                       Damage(status);
                                       return true;
                                     },
                                 .advanced = [&](uint64_t bytes) { meter_.Advance(bytes); }};
    TakeFacts(Scan(file_,
                   {.compression = options_.compression,
                    .max_record_bytes = options_.max_record_bytes,
                    .container = options_.container},
                   visitor));
    return std::move(result_);
  }

 private:
  void Take(const ScannedRecord& record) {
    const absl::Status status = checks_examples_ ? CheckExample(record) : absl::OkStatus();
    if (!status.ok()) return Damage(status);
    ++report().num_records;
    report().payload_bytes += record.payload.size();
  }

  // An error of the file, and not of the bytes that were read, is no damage.
  void TakeFacts(const ScanFacts& facts) {
    if (absl::IsDataLoss(facts.unreadable)) {
      Damage(facts.unreadable);
    } else if (!facts.unreadable.ok()) {
      report().unreadable.push_back({file_, std::string(facts.unreadable.message())});
    }
    report().unreadable.insert(report().unreadable.end(), facts.unreadable_images.begin(),
                               facts.unreadable_images.end());
    report().notes = facts.notes;
    // A row of names that is damaged is told by the walk.
    const bool names_fail = result_.columns.has_value() && !result_.columns->ok();
    if (names_fail && report().num_damaged == 0) Damage(result_.columns->status());
  }

  void Damage(const absl::Status& status) { AddDamage(status, file_, options_, report()); }
  VerifyReport& report() { return result_.report; }

  const std::string& file_;
  const VerifyOptions& options_;
  internal::FileMeter& meter_;
  bool checks_examples_ = false;
  Result result_;
};

// Joins the results of files, which come in any order, in the order of the files. Thread-safe.
class Joiner {
 public:
  Joiner(std::span<const std::string> files, const VerifyOptions& options)
      : files_(files), options_(options), results_(files.size()) {}

  void Add(size_t file, FileVerifier::Result result) {
    const MutexLock lock(mu_);
    results_[file] = std::move(result);
    for (; next_ < files_.size() && results_[next_].has_value(); ++next_) {
      Join(files_[next_], *results_[next_]);
      results_[next_].reset();
    }
  }

  VerifyReport Take() {
    const MutexLock lock(mu_);
    return std::move(report_);
  }

 private:
  void Join(const std::string& file, FileVerifier::Result& result) MILLRACE_REQUIRES(mu_) {
    VerifyReport& added = result.report;
    const uint64_t damaged_before = report_.num_damaged;
    CheckColumns(file, result.columns);
    for (DamagedPlace& place : added.places) {
      if (report_.places.size() < options_.max_places) report_.places.push_back(std::move(place));
    }
    report_.num_damaged += added.num_damaged;
    report_.num_records += added.num_records;
    report_.payload_bytes += added.payload_bytes;
    std::ranges::move(added.unreadable, std::back_inserter(report_.unreadable));
    std::ranges::move(added.notes, std::back_inserter(report_.notes));
    ++report_.num_files;
    if (report_.num_damaged > damaged_before) ++report_.num_damaged_files;
  }

  void CheckColumns(const std::string& file, const std::optional<Columns>& names)
      MILLRACE_REQUIRES(mu_) {
    if (!names.has_value() || !names->ok()) return;
    const absl::Status alike = columns_.Check(file, *names);
    if (!alike.ok()) AddDamage(alike, file, options_, report_);
  }

  const std::span<const std::string> files_;
  const VerifyOptions& options_;
  Mutex mu_;
  std::vector<std::optional<FileVerifier::Result>> results_ MILLRACE_GUARDED_BY(mu_);
  size_t next_ MILLRACE_GUARDED_BY(mu_) = 0;  // the first file that is not in the report
  SameColumns columns_ MILLRACE_GUARDED_BY(mu_);
  VerifyReport report_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<VerifyReport> Verify(std::span<const std::string> files,
                                    const VerifyOptions& options, const ScanProgress& progress) {
  if (files.empty()) return absl::InvalidArgumentError("verify: no files");
  internal::ScanMeter meter(files, progress);
  Joiner joiner(files, options);
  const int threads = options.threads > 0 ? options.threads : ReadCores().usable;
  MILLRACE_RETURN_IF_ERROR(ParallelFor(files.size(), threads, [&](size_t i, size_t) {
    internal::FileMeter in_file(meter, i);
    joiner.Add(i, FileVerifier(files[i], options, in_file).Run());
    in_file.Finish();
    return absl::OkStatus();
  }));
  return joiner.Take();
}

}  // namespace millrace::readers
