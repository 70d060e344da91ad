#ifndef MILLRACE_PIPELINE_CUDA_PRIMARY_CONTEXT_H_
#define MILLRACE_PIPELINE_CUDA_PRIMARY_CONTEXT_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/cuda/driver.h"

namespace millrace::pipeline::cuda {

// The primary context of a device: the one that the CUDA runtime uses, and with it PyTorch and JAX,
// so that their streams and memory are valid in ours. The driver makes it for the first that
// retains it (some 300 MB of the device), and ends it, with all that is in it, when the last has
// released it. Immutable and thread-safe.
class PrimaryContext {
 public:
  // Retains the context of the device `ordinal`.
  //   FAILED_PRECONDITION  there is no device
  //   INVALID_ARGUMENT     there are devices, but none of that ordinal
  //   RESOURCE_EXHAUSTED, INTERNAL  the driver's error
  static absl::StatusOr<std::shared_ptr<const PrimaryContext>> Retain(
      std::shared_ptr<const Driver> driver, int ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver() const { return *driver_; }
  DeviceHandle device() const { return device_; }
  ContextHandle handle() const { return handle_; }

 private:
  PrimaryContext(std::shared_ptr<const Driver> driver, DeviceHandle device, ContextHandle handle)
      : driver_(std::move(driver)), device_(device), handle_(handle) {}

  const std::shared_ptr<const Driver> driver_;
  const DeviceHandle device_;
  const ContextHandle handle_;
};

// Lets the thread call the driver while a CUDA graph is captured. The usual mode of a capture,
// "global", forbids every thread of the process the calls that may wait, such as a query of an
// event, and such a call ends the capture with an error. None of ours is work that a graph records,
// so the thread's mode is relaxed, and in the end the one before again.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CaptureMode mode_ = CaptureMode::kRelaxed;  // the mode before
  const bool is_exchanged_;
};

// Makes a context the thread's current one, and in the end the one before it again. The thread may
// call the driver meanwhile, also during a capture.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  const Driver& driver_;
  const RelaxedCapture relaxed_;
  const absl::Status status_;
};

}  // namespace millrace::pipeline::cuda

#endif  // MILLRACE_PIPELINE_CUDA_PRIMARY_CONTEXT_H_
