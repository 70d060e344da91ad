#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/audit.h"
#include "pipeline/audit/ledger.h"
#include "pipeline/audit/starts.h"

// How visits are proven. A log is a list of starts, each followed by the slices that this rank was
// delivered. A later start at batch g takes back what was logged at or behind g: by its own rank in
// the same world, and by every rank of another world. The slices that are left count, and are
// merged by batch number over all logs. Then two things are compared that know nothing of each
// other: the rows of every batch (are all slices there, once?) and the samples of every epoch (is
// every bit set, once?). A fault has to fool both.

namespace millrace::pipeline {
namespace {

// A batch that is not complete; a loss as soon as the stream is known to have gone on behind it.
struct Gap {
  uint64_t first = 0;  // the first of the batches that lack rows
  uint64_t last = 0;
  uint64_t rows = 0;  // the missing rows; 0: not known
  std::string who;
};

class Checker {
 public:
  Checker(const AuditOptions& options, AuditReport& report)
      : options_(options),
        report_(report),
        findings_(report, options.max_messages),
        starts_(report, findings_) {}

  absl::Status Load(const std::string& path) { return starts_.Load(path); }
  absl::Status Check();

 private:
  absl::Status Merge();
  absl::Status MergeBatch(uint64_t batch, const std::vector<size_t>& starts);
  uint64_t CountRows(uint64_t batch, const std::vector<std::pair<size_t, AuditBatch>>& slices);
  void AddGap(uint64_t first, uint64_t last, uint64_t rows, const std::vector<size_t>& present);
  std::string Missing(uint64_t batch, const std::vector<size_t>& present) const;
  void GapsAreLosses();
  void End();
  absl::Status TellDuplicates();

  const AuditOptions& options_;
  AuditReport& report_;
  AuditFindings findings_;
  AuditStarts starts_;
  std::optional<AuditLedger> ledger_;
  uint64_t next_batch_ = 0;  // all before were merged
  std::vector<Gap> gaps_;
  std::map<RecordErrorReason, uint64_t> reasons_;
};

// The rows of the global batch that are there; tells those that are there twice.
uint64_t Checker::CountRows(uint64_t batch,
                            const std::vector<std::pair<size_t, AuditBatch>>& slices) {
  std::vector<std::pair<int64_t, size_t>> rows;  // the rows, and the start that logged each
  for (const auto& [start, slice] : slices) {
    for (const AuditVisit& visit : slice.visits) {
      rows.emplace_back(slice.first_global_row + visit.row, start);
    }
    for (const AuditReplaced& one : slice.replaced) {
      rows.emplace_back(slice.first_global_row + one.row, start);
    }
  }
  std::ranges::sort(rows);
  const auto same_row = [](const auto& a, const auto& b) { return a.first == b.first; };
  const auto twice = std::ranges::adjacent_find(rows, same_row);
  if (twice != rows.end()) {
    findings_.Violation(
        absl::StrCat("batch ", batch, ": row ", twice->first,
                     " was delivered twice: ", starts_.NameOf(starts_[twice->second]), " and ",
                     starts_.NameOf(starts_[(twice + 1)->second])));
  }
  return static_cast<uint64_t>(std::unique(rows.begin(), rows.end(), same_row) - rows.begin());
}

// The lowest epoch of a batch's rows. They differ where lanes are not equally far, or epochs are
// mixed.
uint64_t LowestEpoch(const std::vector<std::pair<size_t, AuditBatch>>& slices) {
  uint64_t lowest = slices[0].second.epoch;
  for (const auto& [start, slice] : slices) {
    for (const AuditVisit& visit : slice.visits) lowest = std::min(lowest, visit.id.epoch);
    for (const AuditReplaced& one : slice.replaced) lowest = std::min(lowest, one.id.epoch);
  }
  return lowest;
}

absl::Status Checker::MergeBatch(uint64_t batch, const std::vector<size_t>& starts) {
  std::vector<std::pair<size_t, AuditBatch>> slices;
  for (const size_t at : starts) {
    AuditStart& start = starts_[at];
    MILLRACE_ASSIGN_OR_RETURN(std::optional<AuditBatch> slice,
                              starts_.ReadSlice(start, start.slices[start.next++]));
    if (!slice) {
      findings_.Violation(
          absl::StrCat(starts_.NameOf(start), ": batch ", batch, " cannot be read"));
      continue;
    }
    const bool agrees =
        slices.empty() || (slice->epoch == slices[0].second.epoch &&
                           slice->num_global_valid_rows == slices[0].second.num_global_valid_rows);
    if (!agrees) {
      findings_.Violation(absl::StrCat("batch ", batch, ": ", starts_.NameOf(start),
                                       " disagrees with ", starts_.NameOf(starts_[slices[0].first]),
                                       " about its epoch or its rows"));
    }
    slices.emplace_back(at, *std::move(slice));
  }
  if (slices.empty()) return absl::OkStatus();
  const auto want = static_cast<uint64_t>(slices[0].second.num_global_valid_rows);
  const uint64_t have = CountRows(batch, slices);
  if (have > want) {
    findings_.Violation(absl::StrCat("batch ", batch, ": ", have, " rows of ", want));
  }
  if (have >= want) {
    GapsAreLosses();
    ledger_->EndBefore(LowestEpoch(slices));
    ++report_.batches;
  } else {
    AddGap(batch, batch, want - have, starts);
  }
  for (const auto& [start, slice] : slices) {
    ledger_->Count(slice);
    for (const AuditReplaced& one : slice.replaced) ++reasons_[one.reason];
  }
  return absl::OkStatus();
}

// Says which ranks should have logged a batch and did not.
std::string Checker::Missing(uint64_t batch, const std::vector<size_t>& present) const {
  std::vector<std::string> names;
  for (size_t at = 0; at < starts_.size(); ++at) {
    const AuditStart& start = starts_[at];
    const bool due = start.header.start_batch <= batch && batch < start.taken_back_from;
    if (!due || std::ranges::find(present, at) != present.end()) continue;
    const auto before =
        std::ranges::lower_bound(start.slices, batch, {}, &AuditStart::Slice::batch);
    names.push_back(
        absl::StrCat(starts_.NameOf(start),
                     before == start.slices.begin()
                         ? std::string(", logged none")
                         : absl::StrCat(", logged batch ", (before - 1)->batch, " before")));
  }
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, text.empty() ? "" : "; ", name);
  return text.empty() ? "no log covers it" : text;
}

void Checker::AddGap(uint64_t first, uint64_t last, uint64_t rows,
                     const std::vector<size_t>& present) {
  const bool in_words = gaps_.size() < options_.max_messages;
  gaps_.push_back({first, last, rows, in_words ? Missing(first, present) : ""});
}

void Checker::GapsAreLosses() {
  for (const Gap& gap : gaps_) {
    report_.lost_rows += gap.rows;
    std::string what = absl::StrCat("batch ", gap.first);
    if (gap.last > gap.first) absl::StrAppend(&what, " to ", gap.last);
    findings_.Violation(absl::StrCat(
        what, ": ", gap.rows > 0 ? absl::StrCat(gap.rows, " rows are") : "all rows are",
        " missing: ", gap.who));
  }
  gaps_.clear();
}

absl::Status Checker::Merge() {
  using Entry = std::pair<uint64_t, size_t>;  // batch, start
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto push = [&](size_t at) {
    const AuditStart& start = starts_[at];
    if (start.next < start.slices.size()) queue.emplace(start.slices[start.next].batch, at);
  };
  for (size_t at = 0; at < starts_.size(); ++at) push(at);
  while (!queue.empty()) {
    const uint64_t batch = queue.top().first;
    std::vector<size_t> starts;
    while (!queue.empty() && queue.top().first == batch) {
      const size_t at = queue.top().second;
      queue.pop();
      // A batch that one start logged more than once comes as often.
      const std::vector<AuditStart::Slice>& slices = starts_[at].slices;
      for (size_t i = starts_[at].next; i < slices.size() && slices[i].batch == batch; ++i) {
        starts.push_back(at);
      }
    }
    if (batch > next_batch_) AddGap(next_batch_, batch - 1, 0, {});
    MILLRACE_RETURN_IF_ERROR(MergeBatch(batch, starts));
    next_batch_ = batch + 1;
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    for (const size_t at : starts) push(at);
  }
  return absl::OkStatus();
}

// Checks the end of the stream, as far as it is known.
void Checker::End() {
  std::optional<uint64_t> end;
  for (const AuditStart& start : starts_) {
    if (!start.end || !start.end->end_of_stream) continue;
    if (end && *end != start.end->next_batch) {
      findings_.Violation(absl::StrCat(starts_.NameOf(start), ": the stream ends at batch ",
                                       start.end->next_batch, ", elsewhere at ", *end));
    }
    end = std::max(end.value_or(0), start.end->next_batch);
  }
  for (const AuditStart& start : starts_) {
    if (start.end || start.taken_back_from != AuditStart::kNever) continue;
    findings_.Note(absl::StrCat(starts_.NameOf(start),
                                ": ends without a mark: killed, cut short, or still running"));
  }
  const std::optional<uint64_t> length =
      starts_.empty() ? std::nullopt : starts_[0].header.stream_batches;
  if (!end && length && gaps_.empty() && next_batch_ == *length) end = length;
  if (!end) {
    if (!gaps_.empty()) {
      findings_.Note(absl::StrCat(
          "batch ", gaps_.front().first,
          " and those behind it were not delivered to all ranks yet: ", gaps_.front().who));
    }
    return;
  }
  if (next_batch_ > *end) {
    findings_.Violation(
        absl::StrCat("batch ", next_batch_ - 1, " lies behind the end of the stream, ", *end));
  }
  if (next_batch_ < *end) AddGap(next_batch_, *end - 1, 0, {});
  GapsAreLosses();
  ledger_->EndBefore(AuditStart::kNever);
}

// Reads the logs once more for the places of what was visited twice.
absl::Status Checker::TellDuplicates() {
  std::map<AuditLedger::Key, std::string> places;
  for (const AuditLedger::Key& key : ledger_->duplicates()) places[key] = "";
  for (const AuditStart& start : starts_) {
    if (places.empty()) break;
    for (const AuditStart::Slice& at : start.slices) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<AuditBatch> slice,
                                starts_.ReadSlice(start, at));
      const auto look = [&](const SampleId& id, int64_t row) {
        const auto found = places.find({id.epoch, id.record, id.sub_index});
        if (found == places.end()) return;
        absl::StrAppend(&found->second, found->second.empty() ? "" : "; ", "batch ", at.batch,
                        " row ", row, " (", starts_.NameOf(start), ")");
      };
      if (!slice) continue;
      for (const AuditVisit& visit : slice->visits) {
        look(visit.id, slice->first_global_row + visit.row);
      }
      for (const AuditReplaced& one : slice->replaced) {
        look(one.id, slice->first_global_row + one.row);
      }
    }
  }
  for (const auto& [key, where] : places) {
    const auto& [epoch, record, sub_index] = key;
    findings_.Violation(absl::StrCat("epoch ", epoch, ": sample ", record,
                                     sub_index == 0 ? "" : absl::StrCat("/", sub_index),
                                     " was visited more than once: ", where));
  }
  return absl::OkStatus();
}

absl::Status Checker::Check() {
  starts_.Settle();
  ledger_.emplace(report_, findings_, options_,
                  starts_.empty() ? std::nullopt : starts_[0].header.expected_records);
  MILLRACE_RETURN_IF_ERROR(Merge());
  End();
  ledger_->FinishOver();
  MILLRACE_RETURN_IF_ERROR(TellDuplicates());
  ledger_->Close();
  for (const auto& [reason, count] : reasons_) {
    findings_.Note(
        absl::StrCat(count, " samples were replaced: ", ToAbsl(RecordErrorReasonName(reason))));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t AuditReport::finished_epochs() const {
  return static_cast<uint64_t>(std::ranges::count_if(epochs, &AuditEpoch::finished));
}

bool AuditReport::exactly_once() const {
  return proven() && std::ranges::all_of(epochs, [](const AuditEpoch& epoch) {
           return !epoch.finished || epoch.expected.has_value();
         });
}

absl::StatusOr<AuditReport> CheckAudit(std::span<const std::string> files,
                                       const AuditOptions& options) {
  if (files.empty()) return absl::InvalidArgumentError("no audit logs to check");
  AuditReport report;
  Checker checker(options, report);
  for (const std::string& file : files) MILLRACE_RETURN_IF_ERROR(checker.Load(file));
  MILLRACE_RETURN_IF_ERROR(checker.Check());
  return report;
}

}  // namespace millrace::pipeline
