#ifndef MILLRACE_PIPELINE_DIGEST_H_
#define MILLRACE_PIPELINE_DIGEST_H_

#include <cstdint>

#include "pipeline/batch.h"

namespace millrace::pipeline {

// A 64-bit digest of the valid rows of a stream of batches. The hash of a row covers its batch, its
// global row, its id, and the name, dtype, shape and bytes of each tensor; the digest is the sum of
// the hashes modulo 2^64. So the digests of all ranks add up to that of a stream of one rank.
// Thread-compatible.
class StreamDigest {
 public:
  void Add(const Batch& batch);
  uint64_t value() const { return sum_; }

 private:
  uint64_t sum_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIGEST_H_
