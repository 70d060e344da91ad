#ifndef MILLRACE_COLLECTIVES_CUDA_QUEUE_H_
#define MILLRACE_COLLECTIVES_CUDA_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "collectives/cuda/block_sum.h"

namespace millrace::collectives {

// One stream of a device, on which operations run in the order in which they were issued, and marks
// between them. Handles are opaque (cudaStream_t, cudaEvent_t), so that no header names a CUDA type
// and tests can put a stream of their own underneath. Thread-safe.
//
// Every call may return
//   RESOURCE_EXHAUSTED  no memory is left
//   INTERNAL            any other error of the driver, by name
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  virtual void* stream() const = 0;

  // Calls `body` with this queue's device as the thread's current one, and returns its status.
  virtual absl::Status OnDevice(const std::function<absl::Status()>& body) = 0;

  // An event that passes when everything issued so far is done; given back with Release, passed or
  // not.
  virtual absl::StatusOr<void*> Record() = 0;
  // True if `event` has passed; an error if the work before it failed. Does not wait.
  virtual absl::StatusOr<bool> Query(void* event) = 0;
  virtual void Release(void* event) = 0;

  // Copies between memory of the device and of the host, in either direction or within one, after
  // the work issued so far. Blocks until the copy is done.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;

  // The methods below put their work after the work issued so far, and do not wait.

  // Memory of the device for sums, all zeros; INTERNAL also if this build has no kernels for the
  // device. Free gives it back once the work issued so far is done.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;

  // This queue continues once all work that `stream`, another stream of the device, has been given
  // so far is done.
  virtual absl::Status Follow(void* stream) = 0;
  // The other way round: `stream` continues once all work of this queue so far is done.
  virtual absl::Status Precede(void* stream) = 0;
  virtual absl::Status CopyWithin(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Zero(void* memory, size_t bytes) = 0;
  virtual absl::Status Set(int64_t* to, int64_t value) = 0;
  virtual absl::Status Sum(const BlockSum& sum) = 0;
  // *sum += the squares of `count` elements of `type`: in float64, in an order that depends only on
  // `type` and `count`.
  virtual absl::Status AddSquares(const void* data, DType type, size_t count, double* sum) = 0;

  // Another queue of the same device, not ordered with this one.
  virtual absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() = 0;
};

// The CUDA device `ordinal`, on `stream` (a cudaStream_t of it, which outlives the queue) or on a
// stream of the queue's own when that is null.
//   UNIMPLEMENTED        this build has no CUDA parts
//   FAILED_PRECONDITION  the driver or a device is missing; the message says which
//   INVALID_ARGUMENT     there are devices, but none of that ordinal
absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeCudaQueue(int ordinal, void* stream);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CUDA_QUEUE_H_
