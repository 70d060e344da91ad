// Stands in for cuda_device.cc in a build without CUDA.

#include "trainer/backend/cuda/device.h"

namespace millrace::trainer::cuda {

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int) {
  return absl::UnimplementedError(
      "this build has no CUDA parts, which training on a GPU needs: build with MILLRACE_CUDA=ON");
}

}  // namespace millrace::trainer::cuda
