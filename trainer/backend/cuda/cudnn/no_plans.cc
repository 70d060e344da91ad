#include "absl/status/status.h"
#include "trainer/backend/cuda/cudnn/products.h"

namespace millrace::trainer::cuda {

absl::StatusOr<std::unique_ptr<CudnnProducts>> CudnnProducts::Make(const CudnnOptions&) {
  return absl::UnimplementedError(
      "this build has no products of cuDNN: it was configured without CUDA, or without the headers "
      "of cuDNN and cudnn-frontend (scripts/install-deps.sh --cuda)");
}

}  // namespace millrace::trainer::cuda
