#include "collectives/reducer/device_memory.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/nccl/on_device.h"

namespace millrace::collectives {
namespace {

// Memory that is read and written 16 bytes at a time begins at multiples of this.
constexpr size_t kPart = 256;
// A device that is lost never ends.
constexpr std::chrono::seconds kEndTimeout(10);
constexpr std::chrono::microseconds kBetweenQuestions{50};

// Cuts one block into parts.
class Cutter {
 public:
  // The offset of a part of `bytes` bytes.
  size_t Add(size_t bytes) {
    const size_t offset = size_;
    size_ += (bytes + kPart - 1) / kPart * kPart;
    return offset;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

// Also in a team, whose reducers sum all of them once before there are gradients.
bool NeedsBuckets(const ReducerOptions& options) {
  return SumsByShares(options) || WantsSquares(options) || options.team != nullptr;
}

size_t LargestBucket(const BucketPlan& plan) {
  size_t largest = 0;
  for (const BucketPlan::Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.bytes);
  return largest;
}

}  // namespace

bool SumsByShares(const ReducerOptions& options) {
  return options.exact || options.shard || options.wire != DType::kF32;
}

DeviceMemory::DeviceMemory(std::unique_ptr<Communicator> own, DeviceCommunicator& device,
                           DeviceQueue* parent)
    : own_(std::move(own)), device_(device), queue_(device.queue()) {
  if (parent != nullptr) followed_ = parent->stream();
  if (device.gradient_stream() != nullptr) followed_ = device.gradient_stream();
}

DeviceMemory::~DeviceMemory() {
  // After a failure passes of ours may be left, also in the buckets; what NCCL has there it has
  // stopped.
  (void)AwaitStream();
  if (scratch_ != nullptr) queue_.Free(scratch_);
}

absl::Status DeviceMemory::AwaitStream() {
  MILLRACE_ASSIGN_OR_RETURN(void* const mark, queue_.Record());
  const auto end = std::chrono::steady_clock::now() + kEndTimeout;
  absl::StatusOr<bool> passed = queue_.Query(mark);
  while (passed.ok() && !*passed && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kBetweenQuestions);
    passed = queue_.Query(mark);
  }
  queue_.Release(mark);
  MILLRACE_RETURN_IF_ERROR(passed.status());
  return *passed ? absl::OkStatus()
                 : absl::DeadlineExceededError("the device's stream has work for 10 s and more");
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Make(DeviceCommunicator& group,
                                                                 const BucketPlan& plan,
                                                                 const ReducerOptions& options,
                                                                 bool in_user_buffers) {
  std::unique_ptr<Communicator> own;
  DeviceCommunicator* device = &group;
  DeviceQueue* parent = nullptr;
  if (options.team != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(own, group.Split(0, group.rank()));
    device = own->on_device();
    parent = &group.queue();
  }
  std::unique_ptr<DeviceMemory> made(new DeviceMemory(std::move(own), *device, parent));
  const absl::Status allocated = made->Allocate(plan, options, in_user_buffers);
  if (group.size() == 1 && !allocated.ok()) return MarkAgreed(allocated);  // of no NCCL
  MILLRACE_RETURN_IF_ERROR(nccl::AgreeOnOutcome(group.bootstrap(), allocated));
  return made;
}

absl::Status DeviceMemory::Allocate(const BucketPlan& plan, const ReducerOptions& options,
                                    bool in_user_buffers) {
  MILLRACE_RETURN_IF_ERROR(AllocateScratch(plan, options));
  if (in_user_buffers && !NeedsBuckets(options)) return absl::OkStatus();
  const size_t bytes = std::max<size_t>(1, plan.total_bytes);
  MILLRACE_ASSIGN_OR_RETURN(void* const buckets, device_.Allocate(bytes));
  buckets_ = static_cast<std::byte*>(buckets);
  // Also what lies between gradients, for the norm.
  MILLRACE_RETURN_IF_ERROR(queue_.Zero(buckets_, bytes));
  return AwaitStream();  // backward writes on a stream of its own
}

// None for plain sums, which need no kernel of ours either.
absl::Status DeviceMemory::AllocateScratch(const BucketPlan& plan, const ReducerOptions& options) {
  const auto size = static_cast<size_t>(device_.size());
  const bool wired = options.wire != DType::kF32;
  const size_t largest = LargestBucket(plan);
  Cutter parts;
  if (WantsSquares(options) || options.average_by_rows) parts.Add(totals_bytes());
  if (SumsByShares(options)) blocks_ = parts.Add(options.exact || wired ? largest : largest / size);
  if (wired) narrow_ = parts.Add(largest / 2);
  Cutter floats;
  for (const size_t count : plan.counts) first_sum_.push_back(floats.Add(count));
  if (options.micro_batches > 1) sums_ = parts.Add(floats.size() * sizeof(float));
  if (parts.size() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(void* const scratch, queue_.Allocate(parts.size()));
  scratch_ = static_cast<std::byte*>(scratch);
  return absl::OkStatus();
}

absl::Status DeviceMemory::FollowGradients() {
  return followed_ == nullptr ? absl::OkStatus() : queue_.Follow(followed_);
}

}  // namespace millrace::collectives
