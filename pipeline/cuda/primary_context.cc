#include "pipeline/cuda/primary_context.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline::cuda {
namespace {

absl::Status CheckOrdinal(const Driver& driver, int ordinal) {
  int num_devices = 0;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(driver, driver.device_get_count(&num_devices), "cuDeviceGetCount"));
  if (num_devices == 0) return absl::FailedPreconditionError("no CUDA device: none present");
  if (ordinal >= 0 && ordinal < num_devices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no CUDA device ", ordinal, ": there are ", num_devices));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PrimaryContext>> PrimaryContext::Retain(
    std::shared_ptr<const Driver> driver, int ordinal) {
  const RelaxedCapture relaxed(*driver);
  MILLRACE_RETURN_IF_ERROR(CheckOrdinal(*driver, ordinal));
  DeviceHandle device = 0;
  MILLRACE_RETURN_IF_ERROR(ToStatus(*driver, driver->device_get(&device, ordinal), "cuDeviceGet"));
  ContextHandle handle = nullptr;
  MILLRACE_RETURN_IF_ERROR(
      ToStatus(*driver, driver->primary_ctx_retain(&handle, device), "cuDevicePrimaryCtxRetain"));
  return std::shared_ptr<const PrimaryContext>(
      new PrimaryContext(std::move(driver), device, handle));
}

// Fails only when the device is lost, or while the process is being torn down and the driver has
// freed everything already.
PrimaryContext::~PrimaryContext() {
  const RelaxedCapture relaxed(*driver_);
  static_cast<void>(driver_->primary_ctx_release(device_));
}

// Where it fails, the thread's mode is as it was, and the calls that follow say what is wrong.
RelaxedCapture::RelaxedCapture(const Driver& driver)
    : driver_(driver),
      is_exchanged_(driver.thread_exchange_stream_capture_mode(&mode_) == Result::kSuccess) {}

RelaxedCapture::~RelaxedCapture() {
  if (is_exchanged_) static_cast<void>(driver_.thread_exchange_stream_capture_mode(&mode_));
}

CurrentContext::CurrentContext(const PrimaryContext& context)
    : driver_(context.driver()),
      relaxed_(driver_),
      status_(ToStatus(driver_, driver_.ctx_push_current(context.handle()), "cuCtxPushCurrent")) {}

CurrentContext::~CurrentContext() {
  ContextHandle popped = nullptr;
  if (status_.ok()) static_cast<void>(driver_.ctx_pop_current(&popped));
}

}  // namespace millrace::pipeline::cuda
