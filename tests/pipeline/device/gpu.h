#ifndef MILLRACE_TESTS_PIPELINE_DEVICE_GPU_H_
#define MILLRACE_TESTS_PIPELINE_DEVICE_GPU_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// What a test needs of a GPU beyond the hand-off's Device.

namespace millrace::pipeline {

// Copies from the memory of GPU 0 behind the work of `stream`, and waits for it. Uses the driver
// that the pipeline has loaded.
absl::Status ReadBackFromGpu(void* host, const void* memory, size_t bytes, void* stream);

// True if the driver has page-locked the host memory at `memory`.
absl::StatusOr<bool> IsPageLocked(const void* memory);

// The current context of this thread; nullptr if there is none.
absl::StatusOr<const void*> CurrentGpuContext();

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DEVICE_GPU_H_
