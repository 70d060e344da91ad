#include "tests/collectives/cuda/gpu_memory.h"

// Stands in for cuda_memory.cc in a build without CUDA.

namespace millrace::collectives {
namespace {

absl::Status Absent() { return absl::UnimplementedError("this build has no CUDA parts"); }

}  // namespace

absl::StatusOr<void*> AllocateOnGpu(size_t) { return Absent(); }
void FreeOnGpu(void*) {}
absl::Status CopyToGpu(void*, const void*, size_t) { return Absent(); }
absl::Status CopyFromGpu(void*, const void*, size_t) { return Absent(); }

}  // namespace millrace::collectives
