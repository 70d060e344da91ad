#ifndef MILLRACE_TESTS_PIPELINE_DEVICE_GPU_H_
#define MILLRACE_TESTS_PIPELINE_DEVICE_GPU_H_

#include <cstddef>

#include "absl/status/status.h"

// What a test needs of a GPU beyond the hand-off's Device.

namespace millrace::pipeline {

// Copies from the memory of GPU 0 behind the work of `stream`, and waits for it.
//   UNIMPLEMENTED  this build has no CUDA parts
absl::Status ReadBackFromGpu(void* host, const void* memory, size_t bytes, void* stream);

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DEVICE_GPU_H_
