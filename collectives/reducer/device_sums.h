#ifndef MILLRACE_COLLECTIVES_REDUCER_DEVICE_SUMS_H_
#define MILLRACE_COLLECTIVES_REDUCER_DEVICE_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer/device_memory.h"
#include "collectives/reducer/reduction_engine.h"
#include "collectives/reducer/user_buffers.h"

namespace millrace::collectives {

// How a bucket is summed on a device: which calls and passes are put on the communicator's stream,
// one behind the other. Nothing here waits. Thread-compatible.
class DeviceSums {
 public:
  // Calls of NCCL that were begun, in order.
  using Calls = std::vector<std::unique_ptr<Pending>>;
  using Totals = ReductionEngine::Totals;

  // `memory` is the caller's gradients, or null. All but `options` outlive this.
  DeviceSums(const BucketPlan& plan, const ReducerOptions& options, DeviceMemory& device,
             const UserBuffers* memory);

  // Takes gradient `i` of a micro-batch; that of the last one becomes the sum of all.
  absl::Status AddMicroBatch(size_t i, const TensorView& gradient, bool first, bool last);
  // Makes all calls for `bucket` once; its memory is to be zeros.
  absl::Status Connect(size_t bucket, Calls& calls);
  // Sums `bucket`; with a step's first bucket also `rows`, this rank's.
  absl::Status Sum(size_t bucket, int64_t rows, Calls& calls);
  // Gathers all ranks' parts of `bucket`.
  absl::Status Gather(size_t bucket, Calls& calls);

  // With `shard` the bytes of `bucket` that this rank has the sums of.
  size_t OwnOffset(size_t bucket) const;
  size_t OwnBytes(size_t bucket) const;

  // Returns the totals of the step whose calls have ended; waits for the stream.
  absl::StatusOr<Totals> Read();

 private:
  // Where the elements of a bucket are: together, or one gradient behind the other.
  std::vector<TensorView> PartsOf(size_t bucket) const;
  bool IsWired(size_t bucket) const;
  bool is_staged() const { return memory_ != nullptr && device_.buckets() != nullptr; }
  TensorView Whole(size_t bucket) const;
  static TensorView Part(const TensorView& whole, size_t begin, size_t count);
  TensorView OwnShare(const TensorView& whole) const;
  const int64_t* divisor() const { return options_.average_by_rows ? device_.rows() : nullptr; }

  absl::Status BeginStep(int64_t rows, Calls& calls);
  absl::Status SumInPlace(size_t bucket, Calls& calls);
  absl::Status SumTogether(size_t bucket, Calls& calls);
  absl::Status SumInOrder(size_t bucket, Calls& calls);
  absl::Status Scatter(size_t bucket, Calls& calls);
  absl::Status AddSquares(size_t bucket, Calls& calls);
  void GatherInPlace(size_t bucket, Calls& calls);
  absl::Status CopyIn(size_t bucket);
  absl::Status CopyOut(size_t bucket);
  void Start(Collective kind, const TensorView& in, const TensorView& out, Calls& calls);

  const BucketPlan& plan_;
  const ReducerOptions options_;
  DeviceMemory& device_;
  const UserBuffers* const memory_;
  const int rank_;
  const int size_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_DEVICE_SUMS_H_
