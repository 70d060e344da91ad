#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_ENTRIES_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_ENTRIES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/kernels/launch.h"

// The functions of the table (kernels.h) in this build.

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

absl::Status ConvertValues(void* stream, const ConvertArgs& args);
absl::Status FoldImages(void* stream, const FoldArgs& args);
absl::Status FoldWeights(void* stream, const FoldWeightsArgs& args);
absl::Status UnfoldWeights(void* stream, const FoldWeightsArgs& args);
absl::Status Activate(void* stream, const ActivationArgs& args);
absl::Status ActivateBackward(void* stream, const ActivationBackwardArgs& args);
absl::Status AddOrMultiply(void* stream, const BinaryArgs& args);
absl::Status CopySlice(void* stream, const SliceArgs& args);
absl::Status SumColumnsOf(void* stream, const ColumnSumsArgs& args);
absl::Status Pool(void* stream, const PoolArgs& args);
absl::Status PoolBackward(void* stream, const PoolArgs& args);
absl::Status MeasureNorm(void* stream, const NormArgs& args);
absl::Status MakeMoments(void* stream, const NormArgs& args);
absl::Status MakeMomentsOfRunning(void* stream, const NormArgs& args);
absl::Status ApplyNorm(void* stream, const NormArgs& args);
absl::Status SumNormGradients(void* stream, const NormArgs& args);
absl::Status CombineNormGradients(void* stream, const NormArgs& args);
absl::Status PoolNorm(void* stream, const NormPoolArgs& args);
absl::Status SumNormPoolGradients(void* stream, const NormPoolArgs& args);
absl::Status CombineNormPoolGradients(void* stream, const NormPoolArgs& args);
absl::Status DropValues(void* stream, const DropoutArgs& args);
absl::Status ComputeLosses(void* stream, const LossArgs& args);

size_t LossScratchBytes();

extern const Kernels kTable;

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_ENTRIES_H_
