#ifndef MILLRACE_COLLECTIVES_REDUCER_USER_BUFFERS_H_
#define MILLRACE_COLLECTIVES_REDUCER_USER_BUFFERS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "base/tensor.h"
#include "collectives/reducer/bucket_plan.h"

namespace millrace::collectives {

// Whether `memory` holds `gradients`, one by one.
//   INVALID_ARGUMENT  names the first gradient whose memory is missing, of another type or shape,
//                     null, not aligned to its elements, or another's as well
absl::Status CheckUserBuffers(const std::vector<GradientSpec>& gradients,
                              const std::vector<TensorView>& memory);

// Gradients in memory of the caller's, seen as the bytes of the plan's buckets. The padding between
// gradients reads as zeros and is not written. Thread-compatible.
class UserBuffers {
 public:
  // `plan` and the memory outlive this.
  UserBuffers(const BucketPlan& plan, std::vector<TensorView> memory);

  const TensorView& view(size_t gradient) const { return memory_[gradient]; }

  // Copy `bytes` bytes of the buckets, from `offset` on, from the gradients to `to`, or from `from`
  // to the gradients.
  void CopyIn(size_t offset, size_t bytes, std::byte* to) const;
  void CopyOut(size_t offset, size_t bytes, const std::byte* from) const;

 private:
  // Calls `part` for the range piece by piece, in order: with gradients' memory, or null for
  // padding.
  template <typename Part>
  void ForEach(size_t offset, size_t bytes, const Part& part) const;

  const BucketPlan& plan_;
  const std::vector<TensorView> memory_;
  std::vector<size_t> order_;  // gradients by offset
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_USER_BUFFERS_H_
