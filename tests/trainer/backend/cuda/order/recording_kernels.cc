#include "tests/trainer/backend/cuda/order/recording_kernels.h"

#include "tests/trainer/backend/cuda/order/kernel_uses.h"
#include "tests/trainer/backend/cuda/order/recording.h"
#include "tests/trainer/backend/cuda/order/update_uses.h"

namespace millrace::trainer::cuda::order {
namespace {

// Kernels are functions without state, so the recording is the stream's.
absl::Status Put(void* stream, const char* kernel, const Uses& uses) {
  Recording::Stream* const handle = Recording::ToStream(stream);
  handle->recording.Work(handle->number, kernel, uses);
  return absl::OkStatus();
}

}  // namespace

const Kernels& RecordingKernels() {
  static const Kernels kKernels = {
      .convert = [](void* on, const ConvertArgs& args) { return Put(on, "convert", UsesOf(args)); },
      .fold = [](void* on, const FoldArgs& args) { return Put(on, "fold", UsesOf(args)); },
      .fold_weights =
          [](void* on, const FoldWeightsArgs& args) {
            return Put(on, "fold_weights", UsesOfFoldWeights(args));
          },
      .unfold_weights =
          [](void* on, const FoldWeightsArgs& args) {
            return Put(on, "unfold_weights", UsesOfUnfoldWeights(args));
          },
      .activate = [](void* on,
                     const ActivationArgs& args) { return Put(on, "activate", UsesOf(args)); },
      .activate_backward =
          [](void* on, const ActivationBackwardArgs& args) {
            return Put(on, "activate_backward", UsesOf(args));
          },
      .binary = [](void* on, const BinaryArgs& args) { return Put(on, "binary", UsesOf(args)); },
      .slice = [](void* on, const SliceArgs& args) { return Put(on, "slice", UsesOf(args)); },
      .column_sums =
          [](void* on, const ColumnSumsArgs& args) { return Put(on, "column_sums", UsesOf(args)); },
      .pool = [](void* on, const PoolArgs& args) { return Put(on, "pool", UsesOfPool(args)); },
      .pool_backward =
          [](void* on, const PoolArgs& args) {
            return Put(on, "pool_backward", UsesOfPoolBackward(args));
          },
      .norm_measure =
          [](void* on, const NormArgs& args) {
            return Put(on, "norm_measure", UsesOfNormMeasure(args));
          },
      .norm_moments =
          [](void* on, const NormArgs& args) {
            return Put(on, "norm_moments", UsesOfNormMoments(args));
          },
      .norm_moments_of_running =
          [](void* on, const NormArgs& args) {
            return Put(on, "norm_moments_of_running", UsesOfNormMomentsOfRunning(args));
          },
      .norm_apply =
          [](void* on, const NormArgs& args) {
            return Put(on, "norm_apply", UsesOfNormApply(args));
          },
      .norm_backward_sums =
          [](void* on, const NormArgs& args) {
            return Put(on, "norm_backward_sums", UsesOfNormBackwardSums(args));
          },
      .norm_backward_combine =
          [](void* on, const NormArgs& args) {
            return Put(on, "norm_backward_combine", UsesOfNormBackwardCombine(args));
          },
      .norm_pool =
          [](void* on, const NormPoolArgs& args) {
            return Put(on, "norm_pool", UsesOfNormPool(args));
          },
      .norm_pool_backward_sums =
          [](void* on, const NormPoolArgs& args) {
            return Put(on, "norm_pool_backward_sums", UsesOfNormPoolBackwardSums(args));
          },
      .norm_pool_backward_combine =
          [](void* on, const NormPoolArgs& args) {
            return Put(on, "norm_pool_backward_combine", UsesOfNormPoolBackwardCombine(args));
          },
      .dropout = [](void* on, const DropoutArgs& args) { return Put(on, "dropout", UsesOf(args)); },
      .loss = [](void* on, const LossArgs& args) { return Put(on, "loss", UsesOf(args)); },
      .update = &RecordingUpdateKernels(),
      .scratch_bytes = RecordedScratchBytes,
  };
  return kKernels;
}

}  // namespace millrace::trainer::cuda::order
