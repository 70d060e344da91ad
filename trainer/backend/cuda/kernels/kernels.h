#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_KERNELS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/run.h"
#include "trainer/model/layer.h"
#include "trainer/model/loss.h"

// The kernels of a network on a device, with their arguments. Every pointer is to memory of the
// device unless it says otherwise. Activations are rows of pixels of channels, one after another
// (NHWC), of `type`: kF32, kBF16 or kF16. Arithmetic is float32 unless it says otherwise, and
// results are rounded to nearest, ties to even. For equal arguments the bits are equal on all
// devices, for sums are made in a fixed order.
//
// Where `accumulates` is true the kernel adds to `to` instead of writing it. `to` may be `from`
// where both have one shape and type.

namespace millrace::trainer::cuda {

// The numbers of a step, in the device's memory: so a graph of the work serves every step.
struct StepValues {
  float gradient_scale = 1;      // loss scale / valid rows of all ranks: factor of a row's gradient
  float inverse_loss_scale = 1;  // 1 / loss scale
  uint64_t seed = 0;             // keys of the random numbers, beside the sample's id
  uint64_t step = 0;
};

// A batch's rows, in the device's memory.
struct BatchRows {
  int64_t rows = 0;
  const uint8_t* valid = nullptr;  // a byte per row; 0: padding, which counts for nothing
  const SampleId* ids = nullptr;   // of each row
  const StepValues* step = nullptr;
};

// to[p][c] = from[p][c] * scale[c] + shift[c] for the first channels of each pixel; further
// channels of `to` become zero. Converts between any of kU8, kI32, kI64, kF16, kBF16 and kF32 on
// the left, and kF32, kBF16 or kF16 on the right. Also pads and crops weights.
struct ConvertArgs {
  const void* from = nullptr;
  DType from_type = DType::kF32;
  int64_t from_channels = 1;
  void* to = nullptr;
  DType to_type = DType::kF32;
  int64_t to_channels = 1;
  int64_t pixels = 0;
  const float* scale = nullptr;   // by channel; null: 1
  const float* shift = nullptr;   // by channel; null: 0
  const float* factor = nullptr;  // one number, of all values, after the shift; null: 1
};

// Folds images of 1 to 4 channels (folding.h). Values are converted, scaled and shifted as those of
// ConvertArgs. `from` is aligned to two values, `to` to 16 bytes.
struct FoldArgs {
  const void* from = nullptr;     // [rows, height, width, channels]
  DType from_type = DType::kF32;  // or kU8
  void* to = nullptr;             // [rows, height / 2, width / 2, kFoldedChannels]
  DType to_type = DType::kBF16;   // or kF16
  int64_t rows = 0;
  int64_t height = 0;  // even
  int64_t width = 0;   // even
  int64_t channels = 1;
  const float* scale = nullptr;  // by channel; null: 1
  const float* shift = nullptr;  // by channel; null: 0
};

// Folds the weights of a convolution, or gives the gradient of folded weights to the weights.
// Weights are [filters, kernel height, kernel width, channels], of kF32, kBF16 or kF16.
struct FoldWeightsArgs {
  const void* from = nullptr;
  DType from_type = DType::kF32;
  void* to = nullptr;
  DType to_type = DType::kF32;
  int64_t filters = 0;
  int64_t channels = 1;           // before they are folded
  Window window;                  // the same
  const float* factor = nullptr;  // of a gradient: one number, of all values; null: 1
};

// to = activation(from [+ bias by channel]). `kind` is an activation, or kAdd for none.
struct ActivationArgs {
  LayerKind kind = LayerKind::kRelu;
  float slope = 0;  // of a leaky ReLU
  DType type = DType::kF32;
  const void* from = nullptr;
  const float* bias = nullptr;  // null: none
  void* to = nullptr;
  int64_t pixels = 0;
  int64_t channels = 1;
};

// to [+]= gradient * activation'(input), by the activation's input or its output, whichever it
// needs: kSilu, and a leaky ReLU whose slope is negative, the input, all others the output. The
// derivative of kRelu6 is 0 where the output is 6.
struct ActivationBackwardArgs {
  LayerKind kind = LayerKind::kRelu;
  float slope = 0;
  DType type = DType::kF32;
  const void* input = nullptr;
  const void* output = nullptr;
  const void* gradient = nullptr;
  void* to = nullptr;
  int64_t count = 0;
  bool accumulates = false;
};

// to [+]= a + b, or a * b; with b null: to [+]= a.
struct BinaryArgs {
  bool multiplies = false;
  DType type = DType::kF32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* to = nullptr;
  int64_t count = 0;
  bool accumulates = false;
};

// to[r][to_begin + k] [+]= from[r][from_begin + k] for k < width: rows of a matrix to those of
// another. Concatenates and cuts.
struct SliceArgs {
  DType type = DType::kF32;
  const void* from = nullptr;
  int64_t from_width = 0;
  int64_t from_begin = 0;
  void* to = nullptr;
  int64_t to_width = 0;
  int64_t to_begin = 0;
  int64_t width = 0;
  int64_t rows = 0;
  bool accumulates = false;
};

// sums[c] = factor * the sum over pixels of from[p][c], in float32. `scratch` has
// kernels.scratch_bytes() of room, as everywhere.
struct ColumnSumsArgs {
  DType type = DType::kF32;
  const void* from = nullptr;
  int64_t pixels = 0;
  int64_t channels = 1;
  float* sums = nullptr;
  const float* factor = nullptr;  // one number; null: 1
  void* scratch = nullptr;
};

// Pools of images. A maximum takes the first of equals; padding never wins. An average divides by
// the places of the window that are inside the image or by all, as the CPU backend does. A global
// average is one whose window is the image.
struct PoolArgs {
  bool is_average = false;
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t channels = 1;
  Window window;
  const void* from = nullptr;  // forward: the input. Backward: the gradient of the output
  void* to = nullptr;          // forward: the output. Backward: the gradient of the input
  uint8_t* places = nullptr;   // of the maxima in their windows, by output value; null in
                               // evaluation. Written forward, read backward. A window of more
                               // places than 256 is UNIMPLEMENTED
  bool accumulates = false;    // backward
};

// A batch norm of pixels of channels. `moments` is float32 memory of 4 * channels: mean, inverse
// deviation, what float32 lost of the mean, and room.
struct NormArgs {
  DType type = DType::kF32;
  BatchRows batch;
  int64_t row_pixels = 1;
  int64_t channels = 1;
  double epsilon = 0;
  const float* weights = nullptr;
  const float* bias = nullptr;
  // float64[1 + 2 * channels], between the kernels of a pass; a synchronized norm puts those of all
  // ranks together. Forward: the number of valid values of a channel, means, and sums of squared
  // differences from the mean (of ranks: Chan et al. 1979). Backward: the same number, sums of dz,
  // and of dz * (x - mean), which ranks add.
  double* sums = nullptr;
  float* moments = nullptr;
  void* scratch = nullptr;

  // Forward.
  const void* x = nullptr;
  const void* addend = nullptr;  // null: none
  bool has_relu = false;         // after the addend
  void* y = nullptr;  // read backward where there is a ReLU. Null then: there was no addend, and
                      // the mask is computed again from x, with the same bits
  float* mean = nullptr;      // statistics of the batch, for the running ones
  float* variance = nullptr;  // unbiased

  // Backward.
  const void* dy = nullptr;
  void* dz = nullptr;  // dy behind the ReLU: the gradient of the addend; null: not kept
  bool accumulates_dz = false;
  void* dx = nullptr;  // null: not wanted
  bool accumulates_dx = false;
  float* weights_gradient = nullptr;
  float* bias_gradient = nullptr;
  const float* factor = nullptr;  // one number, of these gradients; null: 1
};

// A batch norm with a ReLU and without an addend, and the max pool behind it, which alone reads its
// result: neither the result nor its gradient is stored. The bits are those of the two kernels one
// after the other. `y`, `dy` and `dz` are null.
struct NormPoolArgs : NormArgs {
  PoolArgs pool;  // its `rows`, `channels` and `type` are the norm's. Forward: `from` is null.
                  // Backward: `to` is, and nothing accumulates but dx
};

// True if there are such kernels for a pool of these sizes: a window without dilation and with
// places for bytes, and a batch whose pixels have numbers of 31 bits.
inline bool HasNormPool(const PoolArgs& pool) {
  constexpr int64_t kMostPlaces = 256;
  constexpr int64_t kMostPixels = INT32_MAX;
  const Window& window = pool.window;
  return !pool.is_average && window.dilation == std::array<int64_t, 2>{1, 1} &&
         window.kernel[0] * window.kernel[1] <= kMostPlaces &&
         pool.rows * pool.height * pool.width <= kMostPixels &&
         pool.rows * pool.out_height * pool.out_width <= kMostPixels;
}

// Values times 0, or 1 / (1 - rate): the same factors as the CPU backend's, by the sample's id.
struct DropoutArgs {
  DType type = DType::kF32;
  BatchRows batch;
  int64_t row_values = 1;
  double rate = 0;
  uint64_t layer = 0;  // HashName of the layer's name
  const void* from = nullptr;
  void* to = nullptr;
  bool accumulates = false;
};

// The sums of a loss over the valid rows, as StepResult's.
struct LossSums {
  double loss = 0;
  double error = 0;
  int64_t correct = 0;
  int64_t in_top5 = 0;
  int64_t valid = 0;
};

// A loss of rows of values, in float64. Adds to `sums`; writes the gradient of (loss * weight *
// step->gradient_scale) unless it is null; rows of padding get zeros.
struct LossArgs {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  double weight = 1;
  double smoothing = 0;
  BatchRows batch;
  int64_t values = 1;  // of a row
  DType type = DType::kF32;
  const void* output = nullptr;  // the value that it reads
  const void* target = nullptr;
  DType target_type = DType::kI64;  // kI64 or kI32 of labels, or kF32 of values. With a label that
                                    // is no class the loss is a NaN
  void* gradient = nullptr;         // of `type`
  bool accumulates = false;         // of the gradient
  LossSums* sums = nullptr;
  void* scratch = nullptr;
};

// Puts its work on `stream`, a stream of the current device, and does not wait. INTERNAL: the
// driver's error.
template <typename Args>
using Kernel = absl::Status (*)(void* stream, const Args& args);

struct UpdateKernels;  // trainer/backend/cuda/kernels/update.h

// A device's code for each kernel.
struct Kernels {
  Kernel<ConvertArgs> convert = nullptr;
  Kernel<FoldArgs> fold = nullptr;
  Kernel<FoldWeightsArgs> fold_weights = nullptr;
  Kernel<FoldWeightsArgs> unfold_weights = nullptr;
  Kernel<ActivationArgs> activate = nullptr;
  Kernel<ActivationBackwardArgs> activate_backward = nullptr;
  Kernel<BinaryArgs> binary = nullptr;
  Kernel<SliceArgs> slice = nullptr;
  Kernel<ColumnSumsArgs> column_sums = nullptr;
  Kernel<PoolArgs> pool = nullptr;
  Kernel<PoolArgs> pool_backward = nullptr;

  // Batch norm, forward in training: measure (count and sums; with `moments` also what the next
  // makes), then, after a sum over ranks, moments (mean, inverse deviation; the statistics), then
  // apply. In evaluation: moments of the running statistics in `mean` and `variance`, then apply.
  Kernel<NormArgs> norm_measure = nullptr;
  Kernel<NormArgs> norm_moments = nullptr;
  Kernel<NormArgs> norm_moments_of_running = nullptr;
  Kernel<NormArgs> norm_apply = nullptr;
  // Backward: sums (of dz and dz * (x - mean), and the parameters' gradients of this rank), then,
  // after any sum over ranks of `sums`, combine (dx).
  Kernel<NormArgs> norm_backward_sums = nullptr;
  Kernel<NormArgs> norm_backward_combine = nullptr;
  // In place of apply and pool; of pool_backward and sums; of pool_backward and combine.
  // UNIMPLEMENTED: sizes without HasNormPool.
  Kernel<NormPoolArgs> norm_pool = nullptr;
  Kernel<NormPoolArgs> norm_pool_backward_sums = nullptr;
  Kernel<NormPoolArgs> norm_pool_backward_combine = nullptr;

  Kernel<DropoutArgs> dropout = nullptr;  // forward, and backward on the gradient
  Kernel<LossArgs> loss = nullptr;

  const UpdateKernels* update = nullptr;  // those of optimizers

  // Scratch memory that any of them needs for tensors of up to `channels` channels and `rows` rows.
  size_t (*scratch_bytes)(int64_t rows, int64_t channels) = nullptr;
};

// The kernels of the current CUDA device; in builds with CUDA.
const Kernels& CudaKernels();

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_KERNELS_H_
