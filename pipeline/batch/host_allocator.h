#ifndef MILLRACE_PIPELINE_BATCH_HOST_ALLOCATOR_H_
#define MILLRACE_PIPELINE_BATCH_HOST_ALLOCATOR_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/context.h"

namespace millrace::pipeline {

// Where the slabs of batches come from. Thread-safe.
class HostAllocator {
 public:
  virtual ~HostAllocator() = default;

  // Returns `bytes` > 0 uninitialised bytes, aligned to 64; pageable ones from 2 MiB on to 2 MiB.
  //   RESOURCE_EXHAUSTED  the system has no such memory
  //   INTERNAL            another error of the device's driver
  virtual absl::StatusOr<std::byte*> Allocate(size_t bytes) = 0;
  // Gives back what Allocate returned for `bytes`.
  virtual void Free(std::byte* memory, size_t bytes) = 0;
  // "pageable", "pinned" or "program".
  virtual std::string_view name() const = 0;
};

std::shared_ptr<HostAllocator> MakePageableAllocator();

// Memory that the driver of that CUDA device page-locks, from which devices copy asynchronously.
// Loads the driver, and makes the device's primary context if nobody has.
//   FAILED_PRECONDITION  the driver or a device is missing; the message says which
//   INVALID_ARGUMENT     there are devices, but none of that ordinal
//   RESOURCE_EXHAUSTED, INTERNAL  the driver's error
absl::StatusOr<std::shared_ptr<HostAllocator>> MakePinnedAllocator(int device);

// The memory of the program, which `memory` says.
std::shared_ptr<HostAllocator> MakeProgramAllocator(BatchMemory memory);

// That of the context's batch_memory, if it is set; else page-locked for the device `pinned_for`;
// pageable if that does not work, with the reason in the log, or if it is unset.
std::shared_ptr<HostAllocator> MakeHostAllocator(const Context& context,
                                                 std::optional<int> pinned_for);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_HOST_ALLOCATOR_H_
