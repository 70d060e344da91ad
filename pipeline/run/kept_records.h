#ifndef MILLRACE_PIPELINE_RUN_KEPT_RECORDS_H_
#define MILLRACE_PIPELINE_RUN_KEPT_RECORDS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "base/mutex.h"
#include "pipeline/run/read_buffer.h"

// Keeps the records that pass 1 has read until pass 2 has used them, so that the records of the
// remaining rows need not be read, copied and checked a second time. As a rule pass 2 asks for
// positions in the order of their lane, so records well before the one asked for are freed. Records
// that find no room here, or are asked for out of order (by a shuffle behind the cut, by buckets),
// are read again.

namespace millrace::pipeline {

// The records at positions first, first + 1, ... of a lane. Their memory is in the budget.
struct KeptRecords {
  uint64_t first = 0;
  std::vector<std::string_view> payloads;  // the bytes of each record, in `buffer`
  ReadBuffer buffer;
  std::shared_ptr<MemoryBudget> budget;
  int64_t reserved_bytes = 0;

  KeptRecords() = default;
  KeptRecords(const KeptRecords&) = delete;
  KeptRecords& operator=(const KeptRecords&) = delete;
  ~KeptRecords() { budget->Release(reserved_bytes); }

  uint64_t end() const { return first + payloads.size(); }
  bool Has(uint64_t position) const { return position >= first && position < end(); }
  std::string_view payload(uint64_t position) const { return payloads[position - first]; }
};

// Thread-safe.
class RecordKeeper {
 public:
  // Keeps at most `max_bytes`.
  explicit RecordKeeper(int64_t max_bytes) : max_bytes_(max_bytes) {}

  bool HasRoomFor(int64_t bytes) const MILLRACE_EXCLUDES(mu_);
  // Frees `records` instead if there is no room left.
  void Keep(uint64_t lane, std::shared_ptr<const KeptRecords> records) MILLRACE_EXCLUDES(mu_);
  // Returns the records with this position, or nullptr if they are not kept. Frees the records
  // before them, but for the last ones.
  std::shared_ptr<const KeptRecords> Find(uint64_t lane, uint64_t position) MILLRACE_EXCLUDES(mu_);
  void Clear() MILLRACE_EXCLUDES(mu_);

 private:
  // Ascending positions.
  using Lane = std::deque<std::shared_ptr<const KeptRecords>>;

  const int64_t max_bytes_;
  mutable Mutex mu_;
  std::map<uint64_t, Lane> lanes_ MILLRACE_GUARDED_BY(mu_);
  int64_t bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_KEPT_RECORDS_H_
