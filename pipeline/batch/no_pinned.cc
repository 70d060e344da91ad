#include "pipeline/batch/host_allocator.h"

// Stands in for pinned.cc in a build without CUDA.

namespace millrace::pipeline {

absl::StatusOr<std::shared_ptr<HostAllocator>> MakePinnedAllocator() {
  return absl::UnimplementedError("this build has no CUDA parts");
}

}  // namespace millrace::pipeline
