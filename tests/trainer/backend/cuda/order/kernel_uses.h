#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_KERNEL_USES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_KERNEL_USES_H_

#include <cstddef>
#include <cstdint>

#include "tests/trainer/backend/cuda/order/recording.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/product.h"

// The memory that each kernel and product uses, worked out from its arguments alone: a statement
// beside the one that the network's operations make. Rows of a matrix that are used in part count
// from the first byte to the last.

namespace millrace::trainer::cuda::order {

Uses UsesOf(const ConvertArgs& args);
Uses UsesOf(const FoldArgs& args);
Uses UsesOfFoldWeights(const FoldWeightsArgs& args);
Uses UsesOfUnfoldWeights(const FoldWeightsArgs& args);
Uses UsesOf(const ActivationArgs& args);
Uses UsesOf(const ActivationBackwardArgs& args);
Uses UsesOf(const BinaryArgs& args);
Uses UsesOf(const SliceArgs& args);
Uses UsesOf(const ColumnSumsArgs& args);
Uses UsesOfPool(const PoolArgs& args);
Uses UsesOfPoolBackward(const PoolArgs& args);
Uses UsesOfNormMeasure(const NormArgs& args);
Uses UsesOfNormMoments(const NormArgs& args);
Uses UsesOfNormMomentsOfRunning(const NormArgs& args);
Uses UsesOfNormApply(const NormArgs& args);
Uses UsesOfNormBackwardSums(const NormArgs& args);
Uses UsesOfNormBackwardCombine(const NormArgs& args);
Uses UsesOfNormPool(const NormPoolArgs& args);
Uses UsesOfNormPoolBackwardSums(const NormPoolArgs& args);
Uses UsesOfNormPoolBackwardCombine(const NormPoolArgs& args);
Uses UsesOf(const DropoutArgs& args);
Uses UsesOf(const LossArgs& args);

size_t RecordedScratchBytes(int64_t rows, int64_t channels);

// Without the workspace.
Uses UsesOf(const ProductSpec& spec, const ProductTensors& tensors);

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_KERNEL_USES_H_
