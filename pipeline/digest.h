#ifndef MILLRACE_PIPELINE_DIGEST_H_
#define MILLRACE_PIPELINE_DIGEST_H_

#include <cstdint>

#include "pipeline/batch.h"

namespace millrace::pipeline {

// A 64-bit digest of a stream of batches over its valid rows: each row hashes (batch, global row,
// id, and per tensor name, dtype, shape, bytes), and the rows' hashes are added modulo 2^64. So the
// digests of all ranks add up to that of the single-rank stream. Thread-compatible.
class StreamDigest {
 public:
  void Add(const Batch& batch);
  uint64_t value() const { return sum_; }

 private:
  uint64_t sum_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIGEST_H_
