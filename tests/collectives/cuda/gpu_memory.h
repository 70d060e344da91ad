#ifndef MILLRACE_TESTS_COLLECTIVES_CUDA_GPU_MEMORY_H_
#define MILLRACE_TESTS_COLLECTIVES_CUDA_GPU_MEMORY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Memory of GPU 0. Every call waits for its own work. UNIMPLEMENTED in a build without CUDA.

namespace millrace::collectives {

absl::StatusOr<void*> AllocateOnGpu(size_t bytes);
void FreeOnGpu(void* memory);
absl::Status CopyToGpu(void* memory, const void* host, size_t bytes);
absl::Status CopyFromGpu(void* host, const void* memory, size_t bytes);

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_CUDA_GPU_MEMORY_H_
