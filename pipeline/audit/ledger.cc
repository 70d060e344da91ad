#include "pipeline/audit/ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxNamed = 10;  // lost samples of an epoch that a message names

std::string NameOf(const SampleId& id) {
  return id.sub_index == 0 ? absl::StrCat(id.record) : absl::StrCat(id.record, "/", id.sub_index);
}

// Counts samples and names the first few.
struct Listing {
  uint64_t count = 0;
  std::string names;
  void Add(const SampleId& id) {
    if (count++ < kMaxNamed) absl::StrAppend(&names, names.empty() ? "" : ", ", NameOf(id));
    if (count == kMaxNamed + 1) names += ", ...";
  }
};

}  // namespace

struct AuditLedger::Comparison {
  uint64_t expected = 0;
  Listing lost;
  // All that was visited beside what should be.
  uint64_t unexpected = 0;
};

void AuditLedger::Count(const AuditBatch& slice) {
  for (const AuditVisit& visit : slice.visits) CountOne(visit.id, /*replaced=*/false);
  for (const AuditReplaced& replaced : slice.replaced) CountOne(replaced.id, /*replaced=*/true);
}

void AuditLedger::CountOne(const SampleId& id, bool replaced) {
  ++(replaced ? report_.replaced : report_.visits);
  const auto finished = finished_.find(id.epoch);
  if (finished != finished_.end()) {
    ++finished->second.duplicates;
    Remember(id);
    return;
  }
  Epoch& epoch = open_[id.epoch];
  epoch.summary.epoch = id.epoch;
  if (!epoch.visited.Insert(id)) {
    ++epoch.summary.duplicates;
    return Remember(id);
  }
  epoch.over = false;
  if (replaced) ++epoch.summary.replaced;
}

void AuditLedger::Remember(const SampleId& id) {
  if (duplicates_.size() >= findings_.max_messages()) return;
  duplicates_.insert({id.epoch, id.record, id.sub_index});
}

void AuditLedger::EndBefore(uint64_t epoch) {
  for (auto it = open_.begin(); it != open_.end() && it->first < epoch;) {
    const auto one = it++;
    const bool was_over = std::exchange(one->second.over, true);
    if (!was_over && FinishIfComplete(one->second)) open_.erase(one);
  }
}

bool AuditLedger::FinishIfComplete(Epoch& epoch) {
  if (epoch.visited.size() < epoch.expected) return false;
  const std::optional<Comparison> found = Compare(epoch);
  if (!found) return false;
  epoch.expected = found->expected;
  if (found->lost.count > 0) return false;
  Finish(epoch, found);
  return true;
}

void AuditLedger::FinishOver() {
  for (auto& [number, epoch] : open_) {
    if (epoch.over) Finish(epoch, Compare(epoch));
  }
  std::erase_if(open_, [](const auto& entry) { return entry.second.over; });
}

void AuditLedger::Finish(Epoch& epoch, const std::optional<Comparison>& found) {
  epoch.summary.finished = true;
  epoch.summary.visited = epoch.visited.size();
  if (found) {
    epoch.summary.expected = found->expected;
    epoch.summary.lost = found->lost.count;
    epoch.summary.unexpected = found->unexpected;
    Tell(epoch.summary.epoch, *found);
  }
  finished_[epoch.summary.epoch] = epoch.summary;
}

// Nullopt where it is not known.
std::optional<AuditLedger::Comparison> AuditLedger::Compare(const Epoch& epoch) const {
  if (options_.expected) return CompareWithSamples(epoch);
  if (expected_records_) return CompareWithRecords(epoch);
  return std::nullopt;
}

AuditLedger::Comparison AuditLedger::CompareWithRecords(const Epoch& epoch) const {
  Comparison found;
  found.expected = *expected_records_;
  epoch.visited.ForEachMissing(found.expected, [&](uint64_t record) {
    found.lost.Add({epoch.summary.epoch, record, 0});
  });
  found.unexpected = epoch.visited.size() - (found.expected - found.lost.count);
  return found;
}

AuditLedger::Comparison AuditLedger::CompareWithSamples(const Epoch& epoch) const {
  Comparison found;
  SampleSet expected;
  options_.expected(epoch.summary.epoch, [&](const SampleId& id) {
    if (expected.Insert(id) && !epoch.visited.Contains(id)) found.lost.Add(id);
  });
  found.expected = expected.size();
  found.unexpected = epoch.visited.size() - (found.expected - found.lost.count);
  return found;
}

void AuditLedger::Tell(uint64_t epoch, const Comparison& found) {
  const bool samples = options_.expected != nullptr;
  if (found.lost.count > 0) {
    findings_.Violation(absl::StrCat("epoch ", epoch, ": ", found.lost.count, " of ",
                                     found.expected, samples ? " expected samples" : " records",
                                     " were not visited: ", found.lost.names));
  }
  if (found.unexpected == 0) return;
  findings_.Violation(absl::StrCat(
      "epoch ", epoch, ": ", found.unexpected, " samples were visited that ",
      samples ? "are not expected"
              : absl::StrCat("the source does not have (it has ", found.expected, " records)")));
}

void AuditLedger::Close() {
  for (auto& [number, epoch] : open_) {
    epoch.summary.visited = epoch.visited.size();
    finished_[number] = epoch.summary;
  }
  open_.clear();
  for (const auto& [number, summary] : finished_) {
    report_.epochs.push_back(summary);
    if (summary.duplicates == 0) continue;
    findings_.Violation(absl::StrCat("epoch ", number, ": ", summary.duplicates,
                                     " visits of samples that were visited before"));
  }
}

}  // namespace millrace::pipeline
