#include "tests/trainer/backend/cuda/order/recording_nccl.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/core/reduce.h"

namespace millrace::trainer::cuda::order {
namespace {

using collectives::BlockSum;
using collectives::Collective;
using collectives::Communicator;
using collectives::DeviceQueue;
using collectives::Pending;
using collectives::Request;

struct Event {
  int number = 0;
  int questions = 0;
};

// A call that has ended once its event has passed.
class RecordedCall final : public Pending {
 public:
  RecordedCall(DeviceQueue& queue, void* event) : queue_(queue), event_(event) {}
  ~RecordedCall() override { (void)Wait(); }

  bool Poll() override {
    if (event_ == nullptr) return true;
    const absl::StatusOr<bool> passed = queue_.Query(event_);
    if (passed.ok() && !*passed) return false;
    queue_.Release(event_);
    event_ = nullptr;
    return true;
  }
  absl::Status Wait() override {
    while (!Poll()) {
    }
    return absl::OkStatus();
  }

 private:
  DeviceQueue& queue_;
  void* event_;  // null: the call has ended
};

Use UseOf(const ConstTensorView& view) { return {view.data, view.size_bytes()}; }

}  // namespace

RecordingQueue::RecordingQueue(Recording& recording, int questions)
    : recording_(recording), questions_(questions), stream_(recording.MakeStream("nccl")) {}

void RecordingQueue::Work(std::string_view name, const Uses& uses) {
  recording_.Work(stream_->number, name, uses);
}

absl::StatusOr<void*> RecordingQueue::Record() {
  auto* const event = new Event{recording_.MakeEvent()};
  recording_.Record(event->number, stream_->number);
  return event;
}

absl::StatusOr<bool> RecordingQueue::Query(void* event) {
  auto* const asked = static_cast<Event*>(event);
  if (asked->questions++ < questions_) return false;
  recording_.Wait(kHost, asked->number);
  return true;
}

void RecordingQueue::Release(void* event) { delete static_cast<Event*>(event); }

absl::Status RecordingQueue::Copy(void* to, const void* from, size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(CopyWithin(to, from, bytes));
  recording_.Order(stream_->number, kHost);
  return absl::OkStatus();
}

absl::StatusOr<void*> RecordingQueue::Allocate(size_t bytes) {
  std::byte* const memory = recording_.Allocate(bytes, "of the reducer", stream_->number);
  MILLRACE_RETURN_IF_ERROR(Zero(memory, bytes));
  return static_cast<void*>(memory);
}

void RecordingQueue::Free(void* memory) { recording_.Free(memory, stream_->number); }

absl::Status RecordingQueue::Follow(void* stream) {
  recording_.Order(Recording::ToStream(stream)->number, stream_->number);
  return absl::OkStatus();
}

absl::Status RecordingQueue::Precede(void* stream) {
  recording_.Order(stream_->number, Recording::ToStream(stream)->number);
  return absl::OkStatus();
}

absl::Status RecordingQueue::CopyWithin(void* to, const void* from, size_t bytes) {
  Uses uses;
  if (recording_.IsDeviceMemory(from)) uses.reads.push_back({from, bytes});
  if (recording_.IsDeviceMemory(to)) uses.writes.push_back({to, bytes});
  Work("copy of the reducer", uses);
  return absl::OkStatus();
}

absl::Status RecordingQueue::Zero(void* memory, size_t bytes) {
  Work("zero of the reducer", {.writes = {{memory, bytes}}});
  return absl::OkStatus();
}

absl::Status RecordingQueue::Set(int64_t* to, int64_t /*value*/) {
  Work("set of the reducer", {.writes = {{to, sizeof(int64_t)}}});
  return absl::OkStatus();
}

absl::Status RecordingQueue::Sum(const BlockSum& sum) {
  const size_t in_bytes = sum.count * SizeOf(sum.in_type);
  Work("sum of blocks", {.reads = {{sum.first, sum.count * sizeof(float)},
                                   {sum.blocks, static_cast<size_t>(sum.num_blocks) * in_bytes},
                                   {sum.rows, sizeof(int64_t)}},
                         .writes = {{sum.out, sum.count * SizeOf(sum.out_type), kSum}}});
  return absl::OkStatus();
}

absl::Status RecordingQueue::AddSquares(const void* data, DType type, size_t count, double* sum) {
  Work("squares", {.reads = {{data, count * SizeOf(type)}, {sum, sizeof(double)}},
                   .writes = {{sum, sizeof(double)}}});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceQueue>> RecordingQueue::Another() {
  return std::make_unique<RecordingQueue>(recording_, questions_);
}

absl::StatusOr<std::unique_ptr<Communicator>> RecordingCommunicator::Split(int, int) {
  return absl::UnimplementedError("a recording has one group");
}

std::unique_ptr<Pending> RecordingCommunicator::StartChecked(const Request& request,
                                                             const absl::Status&) {
  queue_.Work(collectives::Name(request.kind),
              {.reads = {UseOf(request.in)},
               .writes = {{request.out.data, request.out.size_bytes(), kSum}}});
  return std::make_unique<RecordedCall>(queue_, *queue_.Record());
}

absl::Status RecordingCommunicator::RunChecked(const Request& request,
                                               const absl::Status& arguments) {
  return StartChecked(request, arguments)->Wait();
}

absl::StatusOr<void*> RecordingCommunicator::Allocate(size_t bytes) {
  return static_cast<void*>(recording_.Allocate(bytes, "of NCCL"));
}

absl::Status RecordingCommunicator::Register(void*, size_t) { return absl::OkStatus(); }

absl::Status RecordingCommunicator::Copy(void* to, const void* from, size_t bytes) {
  return queue_.Copy(to, from, bytes);
}

}  // namespace millrace::trainer::cuda::order
