#ifndef MILLRACE_PIPELINE_DEVICE_DEVICE_H_
#define MILLRACE_PIPELINE_DEVICE_DEVICE_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The calls of an accelerator that the hand-off needs, in CUDA's terms. Streams and events are
// opaque handles (CUstream, CUevent), so that no header of ours names a CUDA type and tests
// can put a device of their own underneath whose copies they delay and fail.

namespace millrace::pipeline {

// Work on one stream runs in the order in which it was issued; streams run beside each other unless
// an event orders them. Nothing here waits for the device but Synchronize. Thread-safe; works on
// any thread and leaves that thread's current context as it was.
//
// Every call may return
//   RESOURCE_EXHAUSTED  the device, or the driver, has no memory left
//   INTERNAL            any other error of the driver, by name; the device may be lost with it
class Device {
 public:
  virtual ~Device() = default;

  // "CUDA device 0 (name)", for messages.
  virtual std::string_view name() const = 0;

  // Returns `bytes` > 0 uninitialised bytes of device memory, aligned to 256. Work issued on
  // `stream` from now on may use them; other streams must be ordered behind it by an event.
  virtual absl::StatusOr<std::byte*> Allocate(size_t bytes, void* stream) = 0;
  // Frees memory that Allocate returned, once the work issued on `stream` so far is done.
  virtual void Free(std::byte* memory, void* stream) = 0;

  // A stream that does not wait for the legacy default stream. Work still on a stream that is
  // destroyed runs to its end.
  virtual absl::StatusOr<void*> CreateStream() = 0;
  virtual void DestroyStream(void* stream) = 0;

  // An event has no past until it is recorded; until then it counts as passed.
  virtual absl::StatusOr<void*> CreateEvent() = 0;
  // Waits already issued for it stay as they are.
  virtual void DestroyEvent(void* event) = 0;

  // Issues a copy from host memory, which must stay as it is until the copy is done. Only from
  // page-locked memory is it sure not to wait.
  virtual absl::Status Copy(std::byte* device_memory, const void* host_memory, size_t bytes,
                            void* stream) = 0;

  // `event` passes when the work issued on `stream` so far is done. Recording it again moves it;
  // waits issued before the move stay with the old place.
  virtual absl::Status Record(void* event, void* stream) = 0;
  // True if `event` has passed; an error if the work before it failed, or the driver does not say.
  virtual absl::StatusOr<bool> Query(void* event) = 0;
  // Work issued on `stream` from now on runs only after `event` has passed.
  virtual absl::Status Wait(void* stream, void* event) = 0;

  // Blocks the host until the work issued on `stream` so far is done or has failed.
  virtual absl::Status Synchronize(void* stream) = 0;
};

// The CUDA device of that ordinal, in its primary context. Loads the driver.
//   FAILED_PRECONDITION  the driver or a device is missing; the message says which
//   INVALID_ARGUMENT     there are devices, but none of that ordinal
absl::StatusOr<std::shared_ptr<Device>> MakeCudaDevice(int ordinal);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DEVICE_DEVICE_H_
