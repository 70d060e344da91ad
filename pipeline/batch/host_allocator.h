#ifndef MILLRACE_PIPELINE_BATCH_HOST_ALLOCATOR_H_
#define MILLRACE_PIPELINE_BATCH_HOST_ALLOCATOR_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/context.h"

namespace millrace::pipeline {

// Where the slabs of batches come from. Thread-safe.
class HostAllocator {
 public:
  virtual ~HostAllocator() = default;

  // Returns `bytes` > 0 uninitialised bytes, aligned to 64 (to 2 MiB from 2 MiB on).
  //   RESOURCE_EXHAUSTED  the system has no such memory
  virtual absl::StatusOr<std::byte*> Allocate(size_t bytes) = 0;
  // Gives back what Allocate returned for `bytes`.
  virtual void Free(std::byte* memory, size_t bytes) = 0;
  // "pageable" or "pinned".
  virtual std::string_view name() const = 0;
};

std::shared_ptr<HostAllocator> MakePageableAllocator();

// Page-locked memory, from which a device copies asynchronously.
//   UNIMPLEMENTED        this build has no CUDA parts
//   FAILED_PRECONDITION  the driver or a device is missing; the message says which
absl::StatusOr<std::shared_ptr<HostAllocator>> MakePinnedAllocator();

// Pinned where that works, else pageable; in a build with CUDA the reason is logged.
std::shared_ptr<HostAllocator> MakeHostAllocator(const Context& context);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_HOST_ALLOCATOR_H_
