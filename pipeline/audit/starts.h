#ifndef MILLRACE_PIPELINE_AUDIT_STARTS_H_
#define MILLRACE_PIPELINE_AUDIT_STARTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/audit.h"
#include "pipeline/audit/format.h"
#include "pipeline/audit/ledger.h"

namespace millrace::pipeline {

// One start of a rank, and the slices that it logged.
struct AuditStart {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  struct Slice {
    uint64_t batch = 0;
    uint64_t offset = 0;
  };
  size_t log = 0;
  AuditHeader header;
  std::vector<Slice> slices;
  std::optional<AuditEnd> end;
  uint64_t taken_back_from = kNever;  // slices of batches from here on are taken back
  size_t next = 0;                    // the slice to merge next
};

// The starts of all logs, in the order of time. Thread-compatible.
class AuditStarts {
 public:
  // Borrows both.
  AuditStarts(AuditReport& report, AuditFindings& findings)
      : report_(report), findings_(findings) {}

  // Reads the headers of a log's blocks.
  absl::Status Load(const std::string& path);
  // After the last Load: leaves out starts of another stream and slices that were taken back.
  void Settle();

  bool empty() const { return starts_.empty(); }
  size_t size() const { return starts_.size(); }
  AuditStart& operator[](size_t i) { return starts_[i]; }
  const AuditStart& operator[](size_t i) const { return starts_[i]; }
  std::vector<AuditStart>::const_iterator begin() const { return starts_.begin(); }
  std::vector<AuditStart>::const_iterator end() const { return starts_.end(); }

  // nullopt: the slice cannot be decoded.
  absl::StatusOr<std::optional<AuditBatch>> ReadSlice(const AuditStart& start,
                                                      const AuditStart::Slice& slice) const;
  // "rank 1 of 2, FILE".
  std::string NameOf(const AuditStart& start) const;

 private:
  bool ReadStart(const AuditReader& reader, const AuditBlock& block);
  bool ReadBlock(const AuditReader& reader, uint64_t offset, const AuditBlock& block);
  bool headed() const { return !starts_.empty() && starts_.back().log == logs_.size() - 1; }
  void Sort();
  void TakeBack();
  void CheckRanks();

  AuditReport& report_;
  AuditFindings& findings_;
  std::vector<AuditReader> logs_;
  std::vector<AuditStart> starts_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_STARTS_H_
