#include "collectives/reducer/stream_engine.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/nccl/api.h"

namespace millrace::collectives {
namespace {

// The device is idle from the end of the last sum until the host has seen it.
constexpr std::chrono::microseconds kBetweenQuestions{20};
// For a peer that leaves as NCCL says that one is gone: its thread has yet to be unwound.
constexpr std::chrono::seconds kToSayWhy{5};
constexpr std::chrono::milliseconds kBetweenHearings{50};

// While it lives, sleeps of this thread end when they are due. By default each may take 50 us
// longer (prctl(2), PR_SET_TIMERSLACK).
class PunctualSleeps {
 public:
  PunctualSleeps() : slack_(prctl(PR_GET_TIMERSLACK)) { (void)prctl(PR_SET_TIMERSLACK, 1UL); }
  PunctualSleeps(const PunctualSleeps&) = delete;
  PunctualSleeps& operator=(const PunctualSleeps&) = delete;
  ~PunctualSleeps() {
    if (slack_ > 0) (void)prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_));
  }

 private:
  const int slack_;  // in ns; not positive: it is not known
};

}  // namespace

absl::Status CheckDeviceOptions(const ReducerOptions& options) {
  if (options.policy != ProgressPolicy::kThread) return absl::OkStatus();
  return absl::UnimplementedError(
      "option policy thread is not taken with gradients in a device's memory (over NCCL)");
}

StreamEngine::StreamEngine(const BucketPlan& plan, const PrivateReducerOptions& options,
                           Waiting waiting, DeviceMemory& memory_of_device,
                           const UserBuffers* memory)
    : ReductionEngine(plan, options, std::move(waiting)),
      memory_(memory_of_device),
      device_(memory_of_device.device()),
      sums_(plan, options, memory_of_device, memory) {}

// NCCL connects ranks by their first calls, which wait for each other: MarkReady is not to, and in
// a team ranks may make them in unlike orders. So they are made here, of zeros; not where gradients
// are summed one by one, in memory that is the caller's.
absl::Status StreamEngine::Connect() {
  if (memory_.buckets() == nullptr) return absl::OkStatus();
  for (size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
    DeviceSums::Calls calls;
    const absl::Status status = sums_.Connect(bucket, calls);
    Await(bucket, calls);
    MILLRACE_RETURN_IF_ERROR(MetAt(bucket, status));
  }
  MILLRACE_RETURN_IF_ERROR(EndCalls());
  return device_.bootstrap().Barrier();  // a rank that leaves then is met in a step
}

absl::Status StreamEngine::AddMicroBatch(size_t i, const TensorView& gradient, bool first,
                                         bool last) {
  return sums_.AddMicroBatch(i, gradient, first, last);
}

absl::Status StreamEngine::Publish(uint32_t count) {
  full_ = count - base_;
  return options_.policy == ProgressPolicy::kInline ? absl::OkStatus() : BeginFull(/*counts=*/true);
}

absl::Status StreamEngine::BeginFull(bool counts) {
  if (begun_ == full_) return absl::OkStatus();
  int64_t start = StepTimes::Now();
  MILLRACE_RETURN_IF_ERROR(memory_.FollowGradients());
  for (; begun_ < full_; ++begun_) {
    MILLRACE_RETURN_IF_ERROR(Begin(begun_));
    const int64_t end = StepTimes::Now();
    if (counts) times_.Polled(begun_, end - start);
    start = end;
  }
  return absl::OkStatus();
}

absl::Status StreamEngine::Begin(size_t bucket) {
  Enter(bucket, Phase::kReducing);
  times_.Begin(step_, bucket);
  Mark reached;
  if (is_watched()) {
    MILLRACE_ASSIGN_OR_RETURN(reached, Record());
  }
  DeviceSums::Calls calls;
  const absl::Status status = sums_.Sum(bucket, rows_, calls);
  Await(bucket, calls, std::move(reached));
  Enter(bucket, Phase::kBackward);
  return MetAt(bucket, status);
}

absl::StatusOr<StreamEngine::Mark> StreamEngine::Record() {
  DeviceQueue& queue = memory_.queue();
  MILLRACE_ASSIGN_OR_RETURN(void* const mark, queue.Record());
  return Mark(mark, ReleaseMark{&queue});
}

void StreamEngine::Await(size_t bucket, DeviceSums::Calls& calls, Mark reached) {
  num_calls_ += calls.size();
  for (auto& call : calls) {
    calls_.push_back({bucket, std::move(call), std::exchange(reached, nullptr)});
  }
}

absl::Status StreamEngine::EndFirst() {
  const absl::Status status = calls_.front().pending->Wait();
  const size_t bucket = calls_.front().bucket;
  calls_.pop_front();
  times_.End(bucket);
  return Explained(MetAt(bucket, status));
}

// NCCL says that a peer is gone, not which one; a peer that has left has told it beside NCCL. A
// rank whose own part has failed asks nobody: the others, who ask, are to hear that it leaves.
absl::Status StreamEngine::Explained(const absl::Status& failure) {
  if (!absl::IsUnavailable(failure) || PeerLostOf(failure).has_value()) return failure;
  Communicator& beside = device_.bootstrap();
  absl::Status met = beside.Heard();
  if (met.ok() && nccl::IsRemote(failure)) {
    const WaitLimits limits = beside.limits();
    beside.set_limits({kToSayWhy, nullptr});
    met = beside.Barrier();
    beside.set_limits(limits);
  }
  return PeerLostOf(met).has_value() ? met : failure;
}

// Over links that do not notice the end of a peer's communicator NCCL says nothing.
absl::Status StreamEngine::HearPeers() {
  const auto now = std::chrono::steady_clock::now();
  if (now - heard_ < kBetweenHearings) return absl::OkStatus();
  heard_ = now;
  return device_.Heard();
}

// While another of the team waits in Finish, what is full is begun for the peers that wait for it.
absl::Status StreamEngine::Poll(bool counts) {
  if (!counts) MILLRACE_RETURN_IF_ERROR(BeginFull(/*counts=*/false));
  bool ended = true;
  while (ended && !calls_.empty()) {
    const int64_t start = StepTimes::Now();
    const size_t bucket = calls_.front().bucket;
    ended = calls_.front().pending->Poll();
    if (ended) MILLRACE_RETURN_IF_ERROR(EndFirst());
    if (counts) times_.Polled(bucket, StepTimes::Now() - start);
  }
  return absl::OkStatus();
}

absl::Status StreamEngine::CheckPeers() {
  MILLRACE_RETURN_IF_ERROR(CheckHealth());
  return HearPeers();
}

absl::Status StreamEngine::AwaitCalls(bool sums, size_t most) {
  const PunctualSleeps punctual;
  while (calls_.size() > most) {
    if (calls_.front().pending->Poll()) {
      MILLRACE_RETURN_IF_ERROR(EndFirst());
      continue;
    }
    if (sums) ShowFirst();
    MILLRACE_RETURN_IF_ERROR(CheckPeers());
    std::this_thread::sleep_for(kBetweenQuestions);
  }
  return absl::OkStatus();
}

// The calls before the first have ended, so what is left before its mark is this device's work
// alone. An error of the device is the call's to tell.
void StreamEngine::ShowFirst() {
  Call& first = calls_.front();
  if (first.reached != nullptr && memory_.queue().Query(first.reached.get()).value_or(true)) {
    first.reached.reset();
  }
  Enter(first.bucket, first.reached == nullptr ? Phase::kWaiting : Phase::kBackward);
}

absl::Status StreamEngine::EndCalls() {
  MILLRACE_RETURN_IF_ERROR(AwaitCalls(/*sums=*/false));
  num_calls_ = 0;
  return AwaitStream();
}

absl::Status StreamEngine::AwaitStream() {
  const PunctualSleeps punctual;
  MILLRACE_ASSIGN_OR_RETURN(const Mark mark, Record());
  absl::StatusOr<bool> passed = memory_.queue().Query(mark.get());
  while (passed.ok() && !*passed) {
    std::this_thread::sleep_for(kBetweenQuestions);
    passed = memory_.queue().Query(mark.get());
    if (const absl::Status health = CheckPeers(); !health.ok()) passed = health;
  }
  return passed.status();
}

absl::Status StreamEngine::Drain() {
  full_ = plan_.buckets.size();
  MILLRACE_RETURN_IF_ERROR(BeginFull(/*counts=*/false));
  MILLRACE_RETURN_IF_ERROR(goes_on() ? GoOn() : EndSums());
  if (!plan_.buckets.empty()) Enter(plan_.buckets.size() - 1, Phase::kBackward);
  base_ += static_cast<uint32_t>(plan_.buckets.size());
  full_ = 0;
  begun_ = 0;
  num_calls_ = 0;
  step_ += step_stride_;
  return absl::OkStatus();
}

bool StreamEngine::goes_on() const {
  return options_.uses_sums_on_stream && device_.size() == 1 && memory_.gradients_have_stream() &&
         !options_.shard && !wants_squares();
}

// So the host is a step ahead of the device at most.
absl::Status StreamEngine::GoOn() {
  MILLRACE_RETURN_IF_ERROR(AwaitCalls(/*sums=*/true, num_calls_));
  MILLRACE_RETURN_IF_ERROR(memory_.PrecedeGradients());
  for (size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) times_.End(bucket);
  totals_ = {.rows = rows_, .squares = 0};
  return absl::OkStatus();
}

// Where there are totals, the wait for them is the wait for the stream.
absl::Status StreamEngine::EndSums() {
  MILLRACE_RETURN_IF_ERROR(AwaitCalls(/*sums=*/true));
  if (plan_.buckets.empty() || (!wants_squares() && !options_.average_by_rows)) {
    return AwaitStream();
  }
  MILLRACE_ASSIGN_OR_RETURN(totals_, sums_.Read());
  return absl::OkStatus();
}

absl::Status StreamEngine::GatherParts(uint32_t /*count*/) {
  MILLRACE_RETURN_IF_ERROR(memory_.FollowGradients());
  for (size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
    DeviceSums::Calls calls;
    const absl::Status status = sums_.Gather(bucket, calls);
    Await(bucket, calls);
    MILLRACE_RETURN_IF_ERROR(MetAt(bucket, status));
  }
  return EndCalls();
}

ReductionEngine::Range StreamEngine::OwnPart(size_t bucket) const {
  return {sums_.OwnOffset(bucket), sums_.OwnBytes(bucket)};
}

// Work on a stream ends only with the peers' part in it, or with the communicator. A program that
// uses the communicator for more than the reducer needs it behind the last step.
void StreamEngine::Leave(const absl::Status& departure, bool quiet) {
  if (quiet) return;
  device_.Leave(departure);
  calls_.clear();
}

}  // namespace millrace::collectives
