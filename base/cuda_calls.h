#ifndef MILLRACE_BASE_CUDA_CALLS_H_
#define MILLRACE_BASE_CUDA_CALLS_H_

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

// Helpers for all callers of the CUDA runtime; for builds with CUDA only.

namespace millrace::cuda {

// The status of one call. The runtime keeps a thread's last error for the next caller that asks:
// it is cleared, so that the host program's own checks do not meet an error that was reported here.
inline absl::Status ToStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const std::string text =
      absl::StrCat(ToAbsl(call), ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

// Ignores the error of a call that gives something back. Such a call fails only when the device is
// lost, or while the process is being torn down and the driver has freed everything already; there
// is nothing left to do then.
inline void Ignore(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
}

// Makes a device the thread's current one, and then the one before it again.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    error_ = cudaGetDevice(&before_);
    if (error_ != cudaSuccess || before_ == ordinal) return;
    error_ = cudaSetDevice(ordinal);
    changed_ = error_ == cudaSuccess;
  }
  ~CurrentDevice() {
    if (changed_) Ignore(cudaSetDevice(before_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  absl::Status status() const { return ToStatus(error_, "cudaSetDevice"); }

 private:
  int before_ = 0;
  bool changed_ = false;  // true if the destructor goes back to `before_`
  cudaError_t error_ = cudaSuccess;
};

// How many devices there are.
//   FAILED_PRECONDITION  none, or no driver
inline absl::StatusOr<int> CountDevices() {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error == cudaSuccess && num_devices > 0) return num_devices;
  Ignore(error);
  return absl::FailedPreconditionError(absl::StrCat(
      "no CUDA device: ", error != cudaSuccess ? cudaGetErrorString(error) : "none present"));
}

// Checks that there is a device `ordinal`. Fails as CountDevices does, or with INVALID_ARGUMENT: no
// such device.
inline absl::Status CheckDevice(int ordinal) {
  MILLRACE_ASSIGN_OR_RETURN(const int num_devices, CountDevices());
  if (ordinal >= 0 && ordinal < num_devices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no CUDA device ", ordinal, ": there are ", num_devices));
}

// A stream that does not wait for the default one; the caller's to destroy.
inline absl::StatusOr<cudaStream_t> MakeStream(int ordinal) {
  const CurrentDevice current(ordinal);
  MILLRACE_RETURN_IF_ERROR(current.status());
  cudaStream_t stream = nullptr;
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                    "cudaStreamCreateWithFlags"));
  return stream;
}

// An event without a time; the caller's to destroy. REQUIRES: its device is the current one.
inline absl::StatusOr<cudaEvent_t> MakeEvent() {
  cudaEvent_t event = nullptr;
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                    "cudaEventCreateWithFlags"));
  return event;
}

inline absl::StatusOr<bool> HasPassed(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // it counts as the thread's last error too
    return false;
  }
  MILLRACE_RETURN_IF_ERROR(ToStatus(error, "cudaEventQuery"));
  return true;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_BASE_CUDA_CALLS_H_
