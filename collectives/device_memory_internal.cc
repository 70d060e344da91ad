#include "collectives/device_memory_internal.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/nccl_internal.h"

namespace millrace::collectives {
namespace {

// What is read and written 16 bytes at a time begins at multiples of this.
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

bool NeedsBuckets(const ReducerOptions& options) {
  return SumsByShares(options) || options.skip_non_finite || options.clip_norm > 0;
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

DeviceMemory::DeviceMemory(std::unique_ptr<Communicator> own, NcclCommunicator& device,
                           DeviceQueue* parent, void* gradient_stream)
    : own_(std::move(own)), device_(device), queue_(nccl::QueueOf(device)) {
  if (parent != nullptr) followed_.push_back(parent->stream());
  if (gradient_stream != nullptr) followed_.push_back(gradient_stream);
}

DeviceMemory::~DeviceMemory() {
  // After a failure passes of ours may be left; what NCCL has there it has stopped.
  AwaitStream();
  if (scratch_ != nullptr) queue_.Free(scratch_);
}

void DeviceMemory::AwaitStream() {
  const absl::StatusOr<void*> mark = queue_.Record();
  if (!mark.ok()) return;
  const auto end = std::chrono::steady_clock::now() + kEndTimeout;
  while (!queue_.Query(*mark).value_or(true) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kBetweenQuestions);
  }
  queue_.Release(*mark);
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Make(NcclCommunicator& group,
                                                                 const BucketPlan& plan,
                                                                 const ReducerOptions& options,
                                                                 bool foreign) {
  std::unique_ptr<Communicator> own;
  NcclCommunicator* device = &group;
  DeviceQueue* parent = nullptr;
  if (options.team != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(own, group.Split(0, group.rank()));
    device = static_cast<NcclCommunicator*>(own.get());
    parent = &nccl::QueueOf(group);
  }
  std::unique_ptr<DeviceMemory> made(
      new DeviceMemory(std::move(own), *device, parent, options.gradient_stream));
  const absl::Status allocated = made->Allocate(plan, options, foreign);
  const absl::Status agreed = nccl::AgreeOnOutcome(group.bootstrap(), allocated);
  if (!agreed.ok()) return MarkAgreed(agreed);
  return made;
}

absl::Status DeviceMemory::Allocate(const BucketPlan& plan, const ReducerOptions& options,
                                    bool foreign) {
  Cutter parts;
  parts.Add(sizeof(int64_t) + static_cast<size_t>(device_.size()) * sizeof(double));
  const size_t largest = LargestBucket(plan);
  if (SumsByShares(options)) blocks_ = parts.Add(largest);
  if (options.wire != DType::kF32) narrow_ = parts.Add(largest / 2);
  Cutter floats;
  for (const size_t count : plan.counts) first_sum_.push_back(floats.Add(count));
  if (options.micro_batches > 1) sums_ = parts.Add(floats.size() * sizeof(float));
  MILLRACE_ASSIGN_OR_RETURN(void* const scratch, queue_.Allocate(parts.size()));
  scratch_ = static_cast<std::byte*>(scratch);
  if (foreign && !NeedsBuckets(options)) return absl::OkStatus();
  const size_t bytes = std::max<size_t>(1, plan.total_bytes);
  MILLRACE_ASSIGN_OR_RETURN(void* const buckets, device_.Allocate(bytes));
  buckets_ = static_cast<std::byte*>(buckets);
  // Also what lies between gradients, for the norm.
  MILLRACE_RETURN_IF_ERROR(queue_.Zero(buckets_, bytes));
  AwaitStream();  // backward writes on a stream of its own
  return absl::OkStatus();
}

absl::Status DeviceMemory::FollowGradients() {
  for (void* const stream : followed_) MILLRACE_RETURN_IF_ERROR(queue_.Follow(stream));
  return absl::OkStatus();
}

}  // namespace millrace::collectives
