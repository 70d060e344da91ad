#ifndef MILLRACE_TESTS_COLLECTIVES_HOST_QUEUE_H_
#define MILLRACE_TESTS_COLLECTIVES_HOST_QUEUE_H_

#include <cstring>
#include <memory>

#include "collectives/device_queue_internal.h"
#include "tests/collectives/host_stream.h"

namespace millrace::collectives {

// The host as a device.
class HostQueue final : public DeviceQueue {
 public:
  void* stream() const override { return stream_.get(); }
  absl::Status OnDevice(const std::function<absl::Status()>& body) override { return body(); }
  absl::StatusOr<void*> Record() override { return new uint64_t(stream_->issued()); }
  absl::StatusOr<bool> Query(void* event) override {
    return stream_->HasDone(*static_cast<uint64_t*>(event));
  }
  void Release(void* event) override { delete static_cast<uint64_t*>(event); }
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    stream_->Enqueue([=] { std::memcpy(to, from, bytes); });
    stream_->Wait();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override {
    return std::make_unique<HostQueue>();
  }

 private:
  const std::unique_ptr<HostStream> stream_ = std::make_unique<HostStream>();
};

inline absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeHostQueue() {
  return std::make_unique<HostQueue>();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_HOST_QUEUE_H_
