#ifndef MILLRACE_COLLECTIVES_BUCKET_PLAN_INTERNAL_H_
#define MILLRACE_COLLECTIVES_BUCKET_PLAN_INTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"

namespace millrace::collectives {

// Where each gradient lives. Offsets and sizes in floats; every offset is a multiple of
// kAlignFloats, counted from the begin of one block of memory that holds all buckets.
struct BucketPlan {
  static constexpr size_t kAlignFloats = 16;  // 64 bytes

  struct Bucket {
    size_t first = 0;  // gradients [first, last)
    size_t last = 0;
    size_t offset = 0;
    size_t size = 0;  // with the padding between gradients
  };
  std::vector<Bucket> buckets;
  std::vector<size_t> offsets;    // by gradient
  std::vector<size_t> sizes;      // by gradient, without padding
  std::vector<size_t> bucket_of;  // by gradient
  size_t total = 0;
};

// Cuts `gradients` into buckets: in order, a bucket closes before the gradient that would make it
// larger than the limit; a gradient above the limit has a bucket of its own.
//   INVALID_ARGUMENT  names the first bad gradient (unknown or too large shape, name used twice)
//                     or option
absl::StatusOr<BucketPlan> MakeBucketPlan(const std::vector<GradientSpec>& gradients,
                                          const ReducerOptions& options);

// The plan's inputs as bytes, the same on every machine: what is hashed and exchanged.
std::string EncodePlanInputs(const std::vector<GradientSpec>& gradients,
                             const ReducerOptions& options);

// XXH3, 64 bits, of `encoded`.
uint64_t HashPlanInputs(std::string_view encoded);

// The first difference between two encoded plans in words; `rank` is the one that is not rank 0.
std::string DescribeDifference(std::string_view rank0, std::string_view other, int rank);

// Compares what `planned` and `encoded` are on all ranks. Collective, also for a rank that could
// not plan: it returns its own status, its peers INVALID_ARGUMENT that names it. These errors have
// the mark of MarkAgreed.
absl::Status AgreeOnPlan(Communicator& communicator, const absl::Status& planned,
                         std::string_view encoded);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_BUCKET_PLAN_INTERNAL_H_
