#ifndef MILLRACE_PIPELINE_AUDIT_LEDGER_H_
#define MILLRACE_PIPELINE_AUDIT_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/audit.h"
#include "pipeline/audit/samples.h"

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

// Which samples were visited, epoch by epoch. An epoch is over when later ones were seen, unless
// one of its samples comes after all, from a lane that lags or out of a shuffle. When it is over
// and every sample that it should visit is there, its samples are forgotten. Thread-compatible.
class AuditLedger {
 public:
  // Borrows all three. `expected_records`: the number of records according to the logs.
  AuditLedger(AuditReport& report, AuditFindings& findings, const AuditOptions& options,
              std::optional<uint64_t> expected_records)
      : report_(report),
        findings_(findings),
        options_(options),
        expected_records_(expected_records) {}

  void Count(const AuditBatch& slice);
  // From now on only samples of `epoch` and later ones come: earlier epochs are over.
  void EndBefore(uint64_t epoch);
  // Reports the violations of the epochs that are over.
  void FinishOver();
  // Writes the epochs into the report, those that are not over as unfinished.
  void Close();

  // The samples that were visited more than once, as far as they are told in words.
  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;  // epoch, record, sub-index
  const std::set<Key>& duplicates() const { return duplicates_; }

 private:
  struct Epoch {
    SampleSet visited;
    AuditEpoch summary;
    bool over = false;      // true if later epochs were seen since its last sample
    uint64_t expected = 0;  // samples, once they were counted
  };
  struct Comparison;  // a comparison with the samples that the epoch should visit
  void CountOne(const SampleId& id, bool replaced);
  void Remember(const SampleId& id);
  std::optional<Comparison> Compare(const Epoch& epoch) const;
  Comparison CompareWithRecords(const Epoch& epoch) const;
  Comparison CompareWithSamples(const Epoch& epoch) const;
  bool FinishIfComplete(Epoch& epoch);
  void Finish(Epoch& epoch, const std::optional<Comparison>& found);
  void Tell(uint64_t epoch, const Comparison& found);

  AuditReport& report_;
  AuditFindings& findings_;
  const AuditOptions& options_;
  const std::optional<uint64_t> expected_records_;
  std::map<uint64_t, Epoch> open_;
  std::map<uint64_t, AuditEpoch> finished_;
  std::set<Key> duplicates_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_LEDGER_H_
