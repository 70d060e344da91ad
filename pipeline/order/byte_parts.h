#ifndef MILLRACE_PIPELINE_ORDER_BYTE_PARTS_H_
#define MILLRACE_PIPELINE_ORDER_BYTE_PARTS_H_

#include <cstdint>
#include <vector>

#include "readers/record_source.h"

namespace millrace::pipeline {

// Parts the records of a source of files, in their order, into consecutive ones of about as many
// bytes each (S-ORDER-6): no part's bytes differ from the mean by more than two records.
class ByteParts {
 public:
  // Borrows `source`. `shard_bytes` of each file's records, inflated.
  ByteParts(const readers::RecordSource& source, std::vector<uint64_t> shard_bytes);

  // The first record of a part, the number of records for `part` == `num_parts`: the first that
  // begins at or behind part / num_parts of all bytes.
  uint64_t First(uint64_t part, uint64_t num_parts) const;

 private:
  uint64_t BeginOf(uint64_t record) const;

  const readers::RecordSource& source_;
  std::vector<uint64_t> shard_begins_;
  uint64_t bytes_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_BYTE_PARTS_H_
