#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/cuda/driver.h"
#include "pipeline/cuda/primary_context.h"
#include "pipeline/device/device.h"

namespace millrace::pipeline {
namespace {

using cuda::CurrentContext;
using cuda::EventHandle;
using cuda::PrimaryContext;
using cuda::Result;
using cuda::StreamHandle;
using cuda::ToStatus;

constexpr int kMaxNameBytes = 256;

StreamHandle AsStream(void* stream) { return static_cast<StreamHandle>(stream); }
EventHandle AsEvent(void* event) { return static_cast<EventHandle>(event); }
cuda::Address AsAddress(std::byte* memory) { return reinterpret_cast<cuda::Address>(memory); }

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const PrimaryContext> context, bool has_pools, std::string name)
      : context_(std::move(context)),
        driver_(context_->driver()),
        has_pools_(has_pools),
        name_(std::move(name)) {}

  std::string_view name() const override { return name_; }

  // The stream-ordered allocator: cuMemAlloc and cuMemFree may wait for all of the device.
  absl::StatusOr<std::byte*> Allocate(size_t bytes, void* stream) override {
    cuda::Address memory = 0;
    if (has_pools_) {
      MILLRACE_RETURN_IF_ERROR(
          Call("cuMemAllocAsync", driver_.mem_alloc_async, &memory, bytes, AsStream(stream)));
    } else {
      MILLRACE_RETURN_IF_ERROR(Call("cuMemAlloc", driver_.mem_alloc, &memory, bytes));
    }
    return reinterpret_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory, void* stream) override {
    if (has_pools_) {
      GiveBack(driver_.mem_free_async, AsAddress(memory), AsStream(stream));
    } else {
      GiveBack(driver_.mem_free, AsAddress(memory));
    }
  }

  absl::StatusOr<void*> CreateStream() override {
    StreamHandle stream = nullptr;
    MILLRACE_RETURN_IF_ERROR(
        Call("cuStreamCreate", driver_.stream_create, &stream, cuda::kStreamNonBlocking));
    return static_cast<void*>(stream);
  }
  void DestroyStream(void* stream) override { GiveBack(driver_.stream_destroy, AsStream(stream)); }

  absl::StatusOr<void*> CreateEvent() override {
    EventHandle event = nullptr;
    MILLRACE_RETURN_IF_ERROR(
        Call("cuEventCreate", driver_.event_create, &event, cuda::kEventDisableTiming));
    return static_cast<void*>(event);
  }
  void DestroyEvent(void* event) override { GiveBack(driver_.event_destroy, AsEvent(event)); }

  absl::Status Copy(std::byte* device_memory, const void* host_memory, size_t bytes,
                    void* stream) override {
    return Call("cuMemcpyHtoDAsync", driver_.memcpy_htod_async, AsAddress(device_memory),
                host_memory, bytes, AsStream(stream));
  }

  absl::Status Record(void* event, void* stream) override {
    return Call("cuEventRecord", driver_.event_record, AsEvent(event), AsStream(stream));
  }
  absl::StatusOr<bool> Query(void* event) override {
    const CurrentContext current(*context_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    const Result result = driver_.event_query(AsEvent(event));
    if (result == Result::kNotReady) return false;
    MILLRACE_RETURN_IF_ERROR(ToStatus(driver_, result, "cuEventQuery"));
    return true;
  }
  absl::Status Wait(void* stream, void* event) override {
    return Call("cuStreamWaitEvent", driver_.stream_wait_event, AsStream(stream), AsEvent(event),
                cuda::kEventWaitDefault);
  }
  absl::Status Synchronize(void* stream) override {
    return Call("cuStreamSynchronize", driver_.stream_synchronize, AsStream(stream));
  }

 private:
  // Calls a function of the driver in the device's context.
  template <typename... Parameters, typename... Arguments>
  absl::Status Call(const char* name, Result (*function)(Parameters...),
                    Arguments... arguments) const {
    const CurrentContext current(*context_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    return ToStatus(driver_, function(arguments...), name);
  }
  // Calls one that gives something back. It fails only when the device is lost, or while the
  // process is being torn down and the driver has freed everything; there is nothing left to do.
  template <typename... Parameters, typename... Arguments>
  void GiveBack(Result (*function)(Parameters...), Arguments... arguments) const {
    const CurrentContext current(*context_);
    static_cast<void>(function(arguments...));
  }

  const std::shared_ptr<const PrimaryContext> context_;
  const cuda::Driver& driver_;
  const bool has_pools_;  // true if the device has memory pools
  const std::string name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> MakeCudaDevice(int ordinal) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::Driver> loaded, cuda::ProcessDriver());
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const PrimaryContext> context,
                            PrimaryContext::Retain(std::move(loaded), ordinal));
  const cuda::Driver& driver = context->driver();
  int has_pools = 0;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(driver,
               driver.device_get_attribute(&has_pools, cuda::DeviceAttribute::kMemoryPoolsSupported,
                                           context->device()),
               "cuDeviceGetAttribute"));
  char name[kMaxNameBytes] = {};
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(driver, driver.device_get_name(name, kMaxNameBytes - 1, context->device()),
               "cuDeviceGetName"));
  return std::make_shared<CudaDevice>(std::move(context), has_pools != 0,
                                      absl::StrCat("CUDA device ", ordinal, " (", name, ")"));
}

}  // namespace millrace::pipeline
