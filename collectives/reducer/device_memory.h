#ifndef MILLRACE_COLLECTIVES_REDUCER_DEVICE_MEMORY_H_
#define MILLRACE_COLLECTIVES_REDUCER_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/cuda/queue.h"
#include "collectives/device_communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/bucket_plan.h"

namespace millrace::collectives {

// True where a rank sums its share of a bucket, so that buckets are to be cut into equal ones.
bool SumsByShares(const ReducerOptions& options);

// The parts of a device that a reducer has: the communicator that sums, and memory. The memory of
// buckets is the communicator's and goes with it, the rest with this object.
class DeviceMemory {
 public:
  // `group` outlives this. A reducer of a team has a communicator of its own, with a stream.
  // Collective.
  //   UNIMPLEMENTED       the library allocates no memory
  //   RESOURCE_EXHAUSTED  there is none
  //   DEADLINE_EXCEEDED   what is on the stream takes more than 10 s
  //   other               as Split, or as CUDA says
  // All ranks return the same where IsAgreed.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Make(DeviceCommunicator& group,
                                                            const BucketPlan& plan,
                                                            const ReducerOptions& options,
                                                            bool in_user_buffers);
  // Waits for the work on the stream, though not for ever.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DeviceCommunicator& device() const { return device_; }
  DeviceQueue& queue() const { return queue_; }
  // Has the queue wait for the work on the stream of the gradients, where that is another stream.
  absl::Status FollowGradients();
  // The other way round. REQUIRES: gradients_have_stream().
  absl::Status PrecedeGradients() { return queue_.Precede(followed_); }
  bool gradients_have_stream() const { return followed_ != nullptr; }

  std::byte* buckets() const {
    return buckets_;
  }  // null: gradients are summed where the caller has them
  // The sums of `gradient` over the micro-batches.
  float* sums_of(size_t gradient) const { return at<float>(sums_) + first_sum_[gradient]; }
  std::byte* blocks() const { return at<std::byte>(blocks_); }  // for a bucket, of all ranks
  std::byte* narrow() const {
    return at<std::byte>(narrow_);
  }  // for a bucket in the type of the wire
  // The totals of a step: its valid rows, and behind them its squares by rank.
  int64_t* rows() const { return at<int64_t>(0); }
  double* squares() const { return at<double>(sizeof(int64_t)); }
  size_t totals_bytes() const {
    return sizeof(int64_t) + static_cast<size_t>(device_.size()) * sizeof(double);
  }

 private:
  DeviceMemory(std::unique_ptr<Communicator> own, DeviceCommunicator& device, DeviceQueue* parent);
  absl::Status Allocate(const BucketPlan& plan, const ReducerOptions& options,
                        bool in_user_buffers);
  absl::Status AllocateScratch(const BucketPlan& plan, const ReducerOptions& options);
  absl::Status AwaitStream();

  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(scratch_ + offset);
  }

  const std::unique_ptr<Communicator> own_;  // null: the caller's
  DeviceCommunicator& device_;
  DeviceQueue& queue_;
  void* followed_ = nullptr;  // the stream of the gradients; null: none
  std::byte* buckets_ = nullptr;
  std::byte* scratch_ = nullptr;
  // Offsets in `scratch_`.
  size_t sums_ = 0;
  size_t blocks_ = 0;
  size_t narrow_ = 0;
  std::vector<size_t> first_sum_;  // the first sum of each gradient
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_DEVICE_MEMORY_H_
