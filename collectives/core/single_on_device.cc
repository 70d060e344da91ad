// A rank that is alone on its device. Its sums are the values themselves, so a call is a copy at
// most; but it ends as a call of NCCL does, once the device has done what the queue holds.

#include "collectives/core/single_on_device.h"

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/core/pending.h"
#include "collectives/factory.h"

namespace millrace::collectives {
namespace {

// An operation that ends when `event` of a queue passes.
class PendingEvent final : public Pending {
 public:
  PendingEvent(DeviceQueue& queue, void* event) : queue_(queue), event_(event) {}
  ~PendingEvent() override { (void)Wait(); }

  bool Poll() override {
    if (event_ == nullptr) return true;
    const absl::StatusOr<bool> passed = queue_.Query(event_);
    if (passed.ok() && !*passed) return false;
    outcome_ = passed.status();
    queue_.Release(event_);
    event_ = nullptr;
    return true;
  }
  absl::Status Wait() override {
    while (!Poll()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return outcome_;
  }

 private:
  DeviceQueue& queue_;
  void* event_;  // null: it has passed
  absl::Status outcome_;
};

class SingleOnDevice final : public DeviceCommunicator {
 public:
  SingleOnDevice(std::unique_ptr<DeviceQueue> queue, std::unique_ptr<Communicator> bootstrap,
                 void* gradient_stream)
      : queue_(std::move(queue)),
        bootstrap_(std::move(bootstrap)),
        gradient_stream_(gradient_stream) {}
  ~SingleOnDevice() override {
    // Work on the other stream may still use what is allocated here.
    if (gradient_stream_ != nullptr) (void)queue_->Follow(gradient_stream_);
    for (void* const memory : allocations_) queue_->Free(memory);
  }

  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  std::string_view backend() const override { return "single"; }
  DeviceQueue& queue() override { return *queue_; }
  void* gradient_stream() const override { return gradient_stream_; }
  Communicator& bootstrap() override { return *bootstrap_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    MILLRACE_ASSIGN_OR_RETURN(auto bootstrap, bootstrap_->Split(color, key));
    MILLRACE_ASSIGN_OR_RETURN(auto queue, queue_->Another());
    return MakeSingleOn(std::move(queue), std::move(bootstrap), gradient_stream_);
  }
  void Abort(const absl::Status& reason) override { bootstrap_->Abort(reason); }
  void Leave(const absl::Status& reason) override { bootstrap_->Leave(reason); }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    MILLRACE_ASSIGN_OR_RETURN(void* const memory, queue_->Allocate(bytes));
    allocations_.push_back(memory);
    return memory;
  }
  absl::Status Register(void* /*memory*/, size_t /*bytes*/) override { return absl::OkStatus(); }
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    return queue_->Copy(to, from, bytes);
  }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override {
    return StartChecked(request, arguments)->Wait();
  }
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    const absl::StatusOr<void*> event = Issue(request, arguments);
    if (!event.ok()) return MakeEnded(event.status());
    return std::make_unique<PendingEvent>(*queue_, *event);
  }
  // Returns an event behind the call.
  absl::StatusOr<void*> Issue(const Request& request, const absl::Status& arguments) {
    MILLRACE_RETURN_IF_ERROR(bootstrap_->Barrier());  // an error once the group is left
    MILLRACE_RETURN_IF_ERROR(arguments);
    const size_t bytes = request.in.size_bytes();
    if (request.out.data != request.in.data && bytes > 0) {
      MILLRACE_RETURN_IF_ERROR(queue_->CopyWithin(request.out.data, request.in.data, bytes));
    }
    return queue_->Record();
  }

  const std::unique_ptr<DeviceQueue> queue_;
  const std::unique_ptr<Communicator> bootstrap_;
  void* const gradient_stream_;
  std::vector<void*> allocations_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> MakeSingleOn(std::unique_ptr<DeviceQueue> queue,
                                                 std::unique_ptr<Communicator> bootstrap,
                                                 void* gradient_stream) {
  return std::make_unique<SingleOnDevice>(std::move(queue), std::move(bootstrap), gradient_stream);
}

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> MakeSingleOnDevice(int device,
                                                                       void* gradient_stream) {
  MILLRACE_ASSIGN_OR_RETURN(auto queue, MakeCudaQueue(device, nullptr));
  return MakeSingleOn(std::move(queue), MakeSingle(), gradient_stream);
}

}  // namespace millrace::collectives
