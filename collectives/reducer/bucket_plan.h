#ifndef MILLRACE_COLLECTIVES_REDUCER_BUCKET_PLAN_H_
#define MILLRACE_COLLECTIVES_REDUCER_BUCKET_PLAN_H_

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

// Where each gradient lives. Offsets are in bytes from the begin of one block of memory that holds
// all buckets, and multiples of kAlignment, as are the sizes of buckets.
struct BucketPlan {
  static constexpr size_t kAlignment = 64;

  struct Bucket {
    DType dtype = DType::kF32;
    std::vector<size_t> gradients;
    size_t offset = 0;
    size_t bytes = 0;  // the size, with the padding between gradients
  };
  std::vector<Bucket> buckets;    // in the order in which backward fills them
  std::vector<size_t> offsets;    // the offset of each gradient
  std::vector<size_t> counts;     // the elements of each gradient
  std::vector<size_t> bucket_of;  // the bucket of each gradient
  size_t total_bytes = 0;
};

// True where steps tell the norm of their sums.
inline bool WantsSquares(const ReducerOptions& options) {
  return options.skip_non_finite || options.clip_norm > 0;
}

// Cuts `gradients` into buckets of one type each: in order, a bucket closes before the gradient of
// its type that would make it larger than the limit; a gradient above the limit has a bucket of its
// own. Of the last one the gradients that the limit of edges has no room for are a bucket in front
// of it. Sizes of buckets are multiples of kAlignment in each of `num_shares` equal parts.
//   INVALID_ARGUMENT  names the first bad gradient (unknown or too large shape, type not taken,
//                     name used twice) or option
absl::StatusOr<BucketPlan> MakeBucketPlan(const std::vector<GradientSpec>& gradients,
                                          const ReducerOptions& options, int num_shares = 1);

// The plan's inputs as bytes, the same on every machine; they are hashed and exchanged. `memory`:
// the owner of the gradients' memory.
std::string EncodePlanInputs(const std::vector<GradientSpec>& gradients,
                             const ReducerOptions& options,
                             std::string_view memory = "the reducer's");

// XXH3, 64 bits, of `encoded`.
uint64_t HashPlanInputs(std::string_view encoded);

// The first difference between two encoded plans in words; `rank` is the one that is not rank 0.
std::string DescribeDifference(std::string_view rank0, std::string_view other, int rank);

// Compares `planned` and `encoded` of all ranks. Collective, also for a rank that could not plan:
// it returns its own status, its peers INVALID_ARGUMENT that names it. These errors have the mark
// of MarkAgreed.
absl::Status AgreeOnPlan(Communicator& communicator, const absl::Status& planned,
                         std::string_view encoded);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_BUCKET_PLAN_H_
