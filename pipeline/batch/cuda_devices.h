#ifndef MILLRACE_PIPELINE_BATCH_CUDA_DEVICES_H_
#define MILLRACE_PIPELINE_BATCH_CUDA_DEVICES_H_

#include "absl/status/statusor.h"

namespace millrace::pipeline {

// How many CUDA devices there are, at least one. Only in a build with CUDA.
//   FAILED_PRECONDITION  the driver or a device is missing; the message says which
absl::StatusOr<int> CountCudaDevices();

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_CUDA_DEVICES_H_
