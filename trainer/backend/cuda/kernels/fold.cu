// Images of a batch, folded for the convolution that reads them, and its weights (folding.h). The
// image is read once and written once: a thread makes a whole folded pixel, whose channels' places
// are known to the compiler, so that little but the memory takes time.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/status.h"
#include "trainer/backend/cuda/folding.h"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

// Two pixels beside each other.
template <typename From, int kSize>
__device__ inline void LoadPixels(const From* from, float (&to)[kSize]) {
  MILLRACE_UNROLL
  for (int k = 0; k < kSize; k += 2) {
    float pair[2];
    Load(from + k, pair);
    to[k] = pair[0];
    to[k + 1] = pair[1];
  }
}

// A pixel's numbers by channel; without them, `otherwise`.
template <int kChannels>
__device__ inline void LoadNumbers(const float* from, float otherwise, float (&to)[kChannels]) {
  MILLRACE_UNROLL
  for (int c = 0; c < kChannels; ++c) to[c] = from == nullptr ? otherwise : from[c];
}

// `pixels` are the folded ones.
template <typename From, typename To, int kChannels>
__global__ void FoldKernel(FoldArgs args, int64_t pixels) {
  constexpr int kPair = 2 * kChannels;
  const int64_t line = args.width * kChannels;
  float scale[kChannels];
  float shift[kChannels];
  LoadNumbers(args.scale, 1, scale);
  LoadNumbers(args.shift, 0, shift);
  for (int64_t i = FirstIndex(); i < pixels; i += IndexStep()) {
    int64_t row = i;
    const int64_t column = TakeLast(row, args.width / 2);
    const From* const from = static_cast<const From*>(args.from) + 2 * row * line + column * kPair;
    float upper[kPair];
    float lower[kPair];
    LoadPixels(from, upper);
    LoadPixels(from + line, lower);
    float values[kFoldedChannels] = {};
    MILLRACE_UNROLL
    for (int k = 0; k < kPair; ++k) {
      values[k] = upper[k] * scale[k % kChannels] + shift[k % kChannels];
      values[kPair + k] = lower[k] * scale[k % kChannels] + shift[k % kChannels];
    }
    Store(values, static_cast<To*>(args.to) + i * kFoldedChannels);
  }
}

template <typename From, typename To, int kChannels>
absl::Status LaunchFold(void* stream, const FoldArgs& args) {
  const int64_t pixels = args.rows * (args.height / 2) * (args.width / 2);
  if (pixels == 0) return absl::OkStatus();
  return Launch(stream, {.name = "fold", .blocks = BlocksFor(pixels), .threads = kThreads},
                FoldKernel<From, To, kChannels>, args, pixels);
}

template <typename From, typename To>
absl::Status FoldChannels(void* stream, const FoldArgs& args) {
  switch (args.channels) {
    case 1:
      return LaunchFold<From, To, 1>(stream, args);
    case 2:
      return LaunchFold<From, To, 2>(stream, args);
    case 3:
      return LaunchFold<From, To, 3>(stream, args);
    case 4:
      return LaunchFold<From, To, 4>(stream, args);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("no kernel folds images of ", args.channels, " channels"));
  }
}

template <typename From>
absl::Status FoldFrom(void* stream, const FoldArgs& args) {
  if (args.to_type == DType::kBF16) return FoldChannels<From, BFloat>(stream, args);
  if (args.to_type == DType::kF16) return FoldChannels<From, Half>(stream, args);
  return absl::InvalidArgumentError(
      absl::StrCat("no kernel folds to ", ToAbsl(Name(args.to_type))));
}

// `count` are the folded weights.
template <typename From, typename To>
__global__ void FoldWeightsKernel(FoldWeightsArgs args, int64_t count) {
  const Window& window = args.window;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    int64_t filter = i;
    int64_t pixel = TakeLast(filter, kFoldedChannels);
    const int64_t channel = TakeLast(pixel, args.channels);
    const int64_t x =
        2 * TakeLast(filter, FoldedTaps(window, 1)) + pixel % 2 - FoldShift(window, 1);
    const int64_t y =
        2 * TakeLast(filter, FoldedTaps(window, 0)) + pixel / 2 - FoldShift(window, 0);
    const bool is_there =
        pixel < 4 && y >= 0 && y < window.kernel[0] && x >= 0 && x < window.kernel[1];
    const int64_t at =
        ((filter * window.kernel[0] + y) * window.kernel[1] + x) * args.channels + channel;
    const float value = is_there ? AsFloat(static_cast<const From*>(args.from)[at]) : 0;
    Round(value, static_cast<To*>(args.to) + i);
  }
}

// `count` are the weights.
template <typename From, typename To>
__global__ void UnfoldWeightsKernel(FoldWeightsArgs args, int64_t count) {
  const Window& window = args.window;
  const float factor = args.factor == nullptr ? 1 : *args.factor;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    int64_t filter = i;
    const int64_t channel = TakeLast(filter, args.channels);
    const int64_t x = TakeLast(filter, window.kernel[1]) + FoldShift(window, 1);
    const int64_t y = TakeLast(filter, window.kernel[0]) + FoldShift(window, 0);
    const int64_t tap = (filter * FoldedTaps(window, 0) + y / 2) * FoldedTaps(window, 1) + x / 2;
    const int64_t at = tap * kFoldedChannels + (y % 2 * 2 + x % 2) * args.channels + channel;
    const float value = AsFloat(static_cast<const From*>(args.from)[at]);
    Round(value * factor, static_cast<To*>(args.to) + i);
  }
}

// f.template operator()<From, To>().
template <typename F>
absl::Status WithTypes(const FoldWeightsArgs& args, const F& f) {
  return WithType(args.from_type, [&]<typename From>() {
    return WithType(args.to_type, [&]<typename To>() { return f.template operator()<From, To>(); });
  });
}

}  // namespace

absl::Status FoldImages(void* stream, const FoldArgs& args) {
  if (args.from_type == DType::kU8) return FoldFrom<uint8_t>(stream, args);
  if (args.from_type == DType::kF32) return FoldFrom<float>(stream, args);
  return absl::InvalidArgumentError(absl::StrCat("no kernel folds ", ToAbsl(Name(args.from_type))));
}

absl::Status FoldWeights(void* stream, const FoldWeightsArgs& args) {
  const int64_t count =
      args.filters * FoldedTaps(args.window, 0) * FoldedTaps(args.window, 1) * kFoldedChannels;
  return WithTypes(args, [&]<typename From, typename To>() {
    return Launch(stream, {.name = "fold_weights", .blocks = BlocksFor(count), .threads = kThreads},
                  FoldWeightsKernel<From, To>, args, count);
  });
}

absl::Status UnfoldWeights(void* stream, const FoldWeightsArgs& args) {
  const int64_t count =
      args.filters * args.window.kernel[0] * args.window.kernel[1] * args.channels;
  return WithTypes(args, [&]<typename From, typename To>() {
    return Launch(stream,
                  {.name = "unfold_weights", .blocks = BlocksFor(count), .threads = kThreads},
                  UnfoldWeightsKernel<From, To>, args, count);
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
