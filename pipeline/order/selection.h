#ifndef MILLRACE_PIPELINE_ORDER_SELECTION_H_
#define MILLRACE_PIPELINE_ORDER_SELECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/run.h"

namespace millrace::pipeline {

// The records that a materialized filter keeps: a bitmap with rank and select, 9/8 bits a record.
// Immutable, thread-safe.
class Selection {
 public:
  // Bit r % 64 of bits[r / 64] says whether record r is kept. REQUIRES: there are just enough
  // words, and bits behind the last record are 0.
  Selection(uint64_t num_records, std::vector<uint64_t> bits);

  uint64_t num_records() const { return num_records_; }
  uint64_t num_kept() const { return kept_before_.back(); }
  std::span<const uint64_t> bits() const { return bits_; }
  uint64_t memory_bytes() const { return 8 * (bits_.size() + kept_before_.size()); }
  // A hash of the records that are kept: equal for equal selections.
  uint64_t Digest() const;

  // How many records before `record` are kept. REQUIRES: record <= num_records().
  uint64_t KeptBefore(uint64_t record) const;
  // How many of `count` records from `first` on are kept.
  uint64_t KeptOf(uint64_t first, uint64_t count) const {
    return KeptBefore(first + count) - KeptBefore(first);
  }
  // Turns each id's record, a number among kept records from the `first_kept`-th on, into the
  // number of that record. Cheapest in ascending order. REQUIRES: each is below num_kept().
  void ToRecords(uint64_t first_kept, std::span<SampleId> ids) const;

 private:
  uint64_t num_records_;
  std::vector<uint64_t> bits_;
  std::vector<uint64_t> kept_before_;  // each block of 8 words, and behind the last
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_SELECTION_H_
