#include "collectives/stream_engine_internal.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::microseconds kBetweenQuestions{50};
constexpr std::chrono::seconds kToSayWhy{1};

}  // namespace

absl::Status CheckDeviceOptions(const ReducerOptions& options) {
  const std::pair<bool, const char*> wanted[] = {
      {options.exact, "exact"},
      {options.average_by_rows, "average_by_rows"},
      {options.skip_non_finite, "skip_non_finite"},
      {options.clip_norm > 0, "clip_norm"},
      {options.shard, "shard"},
      {options.micro_batches > 1, "micro_batches"},
      {options.wire != DType::kF32, "wire"},
      {options.team != nullptr, "team"},
      {options.policy == ProgressPolicy::kThread, "policy thread"},
  };
  for (const auto& [is_wanted, name] : wanted) {
    if (!is_wanted) continue;
    return absl::UnimplementedError(absl::StrCat(
        "option ", name, " is not taken with gradients in a device's memory (over NCCL)"));
  }
  return absl::OkStatus();
}

StreamEngine::StreamEngine(const BucketPlan& plan, HostLinks& links, const ReducerOptions& options,
                           Waiting waiting, NcclCommunicator& device, std::byte* buckets,
                           const ForeignMemory* memory)
    : ReductionEngine(plan, links, options, std::move(waiting)),
      device_(device),
      buckets_(buckets),
      memory_(memory) {}

absl::Status StreamEngine::Publish(uint32_t count) {
  if (options_.policy == ProgressPolicy::kInline) return absl::OkStatus();
  while (begun_ < count - base_) Begin(begun_++);
  return absl::OkStatus();
}

void StreamEngine::Begin(size_t bucket) {
  Enter(bucket, Phase::kReducing);
  times_.Begin(step_, bucket);
  const BucketPlan::Bucket& one = plan_.buckets[bucket];
  if (buckets_ != nullptr) {
    const auto count = static_cast<int64_t>(one.bytes / SizeOf(one.dtype));
    BeginSum(bucket, {buckets_ + one.offset, one.dtype, Shape{count}});
  } else {
    for (const size_t gradient : one.gradients) BeginSum(bucket, memory_->view(gradient));
  }
  Enter(bucket, Phase::kBackward);
}

void StreamEngine::BeginSum(size_t bucket, const TensorView& data) {
  sums_.push_back({bucket, device_.Start({.kind = Collective::kAllReduce,
                                          .in = data,
                                          .out = data,
                                          .op = ReduceOp::kSum,
                                          .agreed = true})});
}

absl::Status StreamEngine::EndFirst() {
  const absl::Status status = sums_.front().pending->Wait();
  const size_t bucket = sums_.front().bucket;
  sums_.pop_front();
  times_.End(bucket);
  return Explained(MetAt(bucket, status));
}

// NCCL says that a peer is gone, not which one; a peer that has left has told it beside NCCL.
absl::Status StreamEngine::Explained(const absl::Status& failure) {
  if (!absl::IsUnavailable(failure) || PeerLostOf(failure).has_value()) return failure;
  Communicator& beside = device_.bootstrap();
  const WaitLimits limits = beside.limits();
  beside.set_limits({kToSayWhy, nullptr});
  const absl::Status met = beside.Barrier();
  beside.set_limits(limits);
  return PeerLostOf(met).has_value() ? met : failure;
}

// Over links that do not notice the end of a peer's communicator NCCL says nothing.
absl::Status StreamEngine::HearPeers() {
  const auto now = std::chrono::steady_clock::now();
  if (now - heard_ < kLongestSleep) return absl::OkStatus();
  heard_ = now;
  return device_.bootstrap().Heard();
}

absl::Status StreamEngine::Poll(bool /*counts*/) {
  while (!sums_.empty() && sums_.front().pending->Poll()) {
    MILLRACE_RETURN_IF_ERROR(EndFirst());
  }
  return absl::OkStatus();
}

absl::Status StreamEngine::Drain() {
  while (begun_ < plan_.buckets.size()) Begin(begun_++);
  while (!sums_.empty()) {
    if (sums_.front().pending->Poll()) {
      MILLRACE_RETURN_IF_ERROR(EndFirst());
      continue;
    }
    Enter(sums_.front().bucket, Phase::kWaiting);
    MILLRACE_RETURN_IF_ERROR(CheckHealth());
    MILLRACE_RETURN_IF_ERROR(HearPeers());
    std::this_thread::sleep_for(kBetweenQuestions);
  }
  if (!plan_.buckets.empty()) Enter(plan_.buckets.size() - 1, Phase::kBackward);
  base_ += static_cast<uint32_t>(plan_.buckets.size());
  begun_ = 0;
  step_ += options_.step_stride;
  return absl::OkStatus();
}

ReductionEngine::Range StreamEngine::OwnPart(size_t bucket) const {
  return {plan_.buckets[bucket].offset, plan_.buckets[bucket].bytes};
}

// What is on a stream has no other end than its peers' part, or the communicator's. Whoever uses that for
// more than the reducer needs it behind the last step.
void StreamEngine::Leave(const absl::Status& departure, bool quiet) {
  if (quiet) return;
  device_.Leave(departure);
  sums_.clear();
}

}  // namespace millrace::collectives
