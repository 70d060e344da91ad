#include "collectives/cuda/queue.h"

// Stands in for cuda_queue.cc in a build without CUDA.

namespace millrace::collectives {

absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeCudaQueue(int, void*) {
  return absl::UnimplementedError(
      "this build has no CUDA parts, which sums on GPUs need: build with MILLRACE_CUDA=ON");
}

}  // namespace millrace::collectives
