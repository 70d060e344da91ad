#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/audit_ledger_internal.h"

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
    Remember(id);
  } else if (replaced) {
    ++epoch.summary.replaced;
  }
}

void AuditLedger::Remember(const SampleId& id) {
  if (duplicates_.size() >= findings_.max_messages()) return;
  duplicates_.insert({id.epoch, id.record, id.sub_index});
}

void AuditLedger::FinishBefore(uint64_t epoch) {
  while (!open_.empty() && open_.begin()->first < epoch) {
    Epoch& done = open_.begin()->second;
    done.summary.finished = true;
    Compare(done);
    done.summary.visited = done.visited.size();
    finished_[done.summary.epoch] = done.summary;
    open_.erase(open_.begin());
  }
}

void AuditLedger::Compare(Epoch& epoch) {
  if (options_.expected) {
    CompareWithSamples(epoch);
  } else if (expected_records_) {
    CompareWithRecords(epoch);
  }
}

void AuditLedger::CompareWithRecords(Epoch& epoch) {
  const uint64_t expected = *expected_records_;
  Listing lost;
  epoch.visited.ForEachMissing(expected, [&](uint64_t record) {
    lost.Add({epoch.summary.epoch, record, 0});
  });
  epoch.summary.expected = expected;
  epoch.summary.lost = lost.count;
  // All that was visited beside the records that should be.
  epoch.summary.unexpected = epoch.visited.size() - (expected - lost.count);
  if (lost.count > 0) {
    findings_.Violation(absl::StrCat("epoch ", epoch.summary.epoch, ": ", lost.count, " of ",
                                     expected, " records were not visited: ", lost.names));
  }
  if (epoch.summary.unexpected > 0) {
    findings_.Violation(absl::StrCat("epoch ", epoch.summary.epoch, ": ", epoch.summary.unexpected,
                                     " samples were visited that the source does not have (it has ",
                                     expected, " records)"));
  }
}

void AuditLedger::CompareWithSamples(Epoch& epoch) {
  SampleSet expected;
  Listing lost;
  options_.expected(epoch.summary.epoch, [&](const SampleId& id) {
    if (expected.Insert(id) && !epoch.visited.Contains(id)) lost.Add(id);
  });
  epoch.summary.expected = expected.size();
  epoch.summary.lost = lost.count;
  epoch.summary.unexpected = epoch.visited.size() - (expected.size() - lost.count);
  if (lost.count > 0) {
    findings_.Violation(absl::StrCat("epoch ", epoch.summary.epoch, ": ", lost.count, " of ",
                                     expected.size(),
                                     " expected samples were not visited: ", lost.names));
  }
  if (epoch.summary.unexpected > 0) {
    findings_.Violation(absl::StrCat("epoch ", epoch.summary.epoch, ": ", epoch.summary.unexpected,
                                     " samples were visited that are not expected"));
  }
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
