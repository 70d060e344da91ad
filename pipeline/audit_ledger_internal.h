#ifndef MILLRACE_PIPELINE_AUDIT_LEDGER_INTERNAL_H_
#define MILLRACE_PIPELINE_AUDIT_LEDGER_INTERNAL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/audit.h"
#include "pipeline/audit_samples_internal.h"

namespace millrace::pipeline {

// Counts violations and keeps the first few in words.
class AuditFindings {
 public:
  AuditFindings(AuditReport& report, size_t max_messages)
      : report_(report), max_messages_(max_messages) {}
  void Violation(std::string text) {
    if (report_.num_violations++ < max_messages_) report_.violations.push_back(std::move(text));
  }
  void Note(std::string text) { report_.notes.push_back(std::move(text)); }
  size_t max_messages() const { return max_messages_; }

 private:
  AuditReport& report_;
  const size_t max_messages_;
};

// Which samples were visited, epoch by epoch. An epoch is compared with what it should visit when
// it is finished, and forgotten. Thread-compatible.
class AuditLedger {
 public:
  // Borrows all three. `expected_records`: what the logs say.
  AuditLedger(AuditReport& report, AuditFindings& findings, const AuditOptions& options,
              std::optional<uint64_t> expected_records)
      : report_(report),
        findings_(findings),
        options_(options),
        expected_records_(expected_records) {}

  void Count(const AuditBatch& slice);
  // No sample of an epoch before `epoch` comes any more.
  void FinishBefore(uint64_t epoch);
  // Writes the epochs into the report, those still open as unfinished.
  void Close();

  // The samples that were visited more than once, as far as they are told in words.
  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;  // epoch, record, sub-index
  const std::set<Key>& duplicates() const { return duplicates_; }

 private:
  struct Epoch {
    SampleSet visited;
    AuditEpoch summary;
  };
  void CountOne(const SampleId& id, bool replaced);
  void Remember(const SampleId& id);
  void Compare(Epoch& epoch);
  void CompareWithRecords(Epoch& epoch);
  void CompareWithSamples(Epoch& epoch);

  AuditReport& report_;
  AuditFindings& findings_;
  const AuditOptions& options_;
  const std::optional<uint64_t> expected_records_;
  std::map<uint64_t, Epoch> open_;
  std::map<uint64_t, AuditEpoch> finished_;
  std::set<Key> duplicates_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_LEDGER_INTERNAL_H_
