// The table of all kernels.

#include <algorithm>

#include "trainer/backend/cuda/kernels/columns.cuh"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/kernels/update.cuh"

namespace millrace::trainer::cuda {
namespace MILLRACE_KERNEL_BUILD {

const Kernels kTable = {
    .convert = ConvertValues,
    .fold = FoldImages,
    .fold_weights = FoldWeights,
    .unfold_weights = UnfoldWeights,
    .activate = Activate,
    .activate_backward = ActivateBackward,
    .binary = AddOrMultiply,
    .slice = CopySlice,
    .column_sums = SumColumnsOf,
    .pool = Pool,
    .pool_backward = PoolBackward,
    .norm_measure = MeasureNorm,
    .norm_moments = MakeMoments,
    .norm_moments_of_running = MakeMomentsOfRunning,
    .norm_apply = ApplyNorm,
    .norm_backward_sums = SumNormGradients,
    .norm_backward_combine = CombineNormGradients,
    .norm_pool = PoolNorm,
    .norm_pool_backward_sums = SumNormPoolGradients,
    .norm_pool_backward_combine = CombineNormPoolGradients,
    .dropout = DropValues,
    .loss = ComputeLosses,
    .update = &kUpdateKernels,
    .scratch_bytes =
        [](int64_t, int64_t channels) {
          return std::max(ColumnScratchBytes(channels), LossScratchBytes());
        },
};

}  // namespace MILLRACE_KERNEL_BUILD

#if defined(__CUDACC__)
const Kernels& CudaKernels() { return MILLRACE_KERNEL_BUILD::kTable; }
#endif

}  // namespace millrace::trainer::cuda
