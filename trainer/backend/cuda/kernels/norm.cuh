#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_NORM_CUH_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_NORM_CUH_

#include <cstdint>
#include <initializer_list>

#include "trainer/backend/cuda/kernels/columns.cuh"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/kernels/values.cuh"

// What the passes of a batch norm have in common, wherever their gradient comes from.

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

// A number of each channel of a thread.
template <int kSize>
struct ByChannel {
  float values[kSize];
  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};

// (x - mean) * inverse deviation * weight + bias.
template <int kSize>
struct Normalization {
  ByChannel<kSize> mean;
  ByChannel<kSize> scale;
  ByChannel<kSize> shift;

  __device__ Normalization(const NormArgs& args, int64_t channel) {
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const int64_t c = channel + i;
      mean[i] = args.moments[c];
      scale[i] = args.weights[c] * args.moments[args.channels + c];
      shift[i] = args.bias[c] - args.moments[2 * args.channels + c] * scale[i];
    }
  }
  __device__ float Of(float x, int i) const { return (x - mean[i]) * scale[i] + shift[i]; }
};

// In rows of padding a gradient is zero.
template <typename T, int kSize>
__device__ inline void StoreZeros(bool accumulates, T* to) {
  if (accumulates) return;
  const float zeros[kSize] = {};
  Store(zeros, to);
}

// Backward: the sums of dz and dz * (x - mean). Stores dz.
//
// A `Source` loads x of a pixel and dz, the gradient behind the ReLU:
//   using Args, derived from NormArgs, and Element; kSize channels of a thread; kMayKeep: dz may be
//       wanted; kAhead, kBlocksOfSums and kBlocksOfPass as in columns.cuh
//   Source(const Args&, int64_t channel)
//   Loaded Read(int64_t offset, int64_t pixel) const, as ForPixels has it. Loaded has is_valid:
//       false in a row of padding
//   void Unpack(const Loaded&, const Normalization<kSize>&, float (&x)[kSize],
//               float (&dz)[kSize]) const
template <typename Source>
struct GradientSums {
  using Args = typename Source::Args;
  using T = typename Source::Element;
  using Loaded = typename Source::Loaded;
  static constexpr int kSize = Source::kSize;
  static constexpr int kSums = 2;
  static constexpr int kRecords = 2;
  static constexpr int kAhead = Source::kAhead;
  static constexpr int kBlocks = Source::kBlocksOfSums;

  const Args& args;
  const Source source;
  const Normalization<kSize> normalization;

  __device__ GradientSums(const Args& all, const ColumnThread<kSize>& at, const ColumnShape&)
      : args(all), source(all, at.channel), normalization(all, at.channel) {}
  __device__ Loaded Read(int64_t offset, int64_t pixel) const { return source.Read(offset, pixel); }
  __device__ bool Add(const Loaded& loaded, int64_t offset, float (&sums)[kSums][kSize]) const {
    const bool keeps = Source::kMayKeep && args.dz != nullptr;
    T* const kept = keeps ? static_cast<T*>(args.dz) + offset : nullptr;
    if (!loaded.is_valid) {
      if (kept != nullptr) StoreZeros<T, kSize>(args.accumulates_dz, kept);
      return false;
    }
    float x[kSize];
    float dz[kSize];
    source.Unpack(loaded, normalization, x, dz);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      sums[0][i] += dz[i];
      sums[1][i] += dz[i] * (x[i] - normalization.mean[i]);
    }
    if (kept != nullptr) StoreOrAdd(dz, args.accumulates_dz, kept);
    return true;
  }
};

struct GradientFinish {
  using Args = NormArgs;
  static constexpr int kSums = 2;
  static constexpr int kRecords = 2;

  const NormArgs& args;

  __device__ GradientFinish(const NormArgs& all, const ColumnShape&, const Partials&, int64_t)
      : args(all) {}
  template <int kNumbers>
  __device__ void Add(const float (&record)[kRecords], float, double (&sums)[kNumbers]) const {
    for (int k = 0; k < kSums; ++k) sums[k] += record[k];
  }
  __device__ void End(int64_t channel, double count, const double* sums) const {
    const double products = sums[1] - args.moments[2 * args.channels + channel] * sums[0];
    if (channel == 0) args.sums[0] = count;
    args.sums[1 + channel] = sums[0];
    args.sums[1 + args.channels + channel] = products;
    const double factor = args.factor == nullptr ? 1 : *args.factor;
    const double inverse = args.moments[args.channels + channel];
    if (args.weights_gradient != nullptr) {
      args.weights_gradient[channel] = static_cast<float>(products * inverse * factor);
    }
    if (args.bias_gradient != nullptr) {
      args.bias_gradient[channel] = static_cast<float>(sums[0] * factor);
    }
  }
};

// With n values of a channel, and d the inverse deviation:
//   dx = weight * d * (dz - sum(dz) / n - (x - mean) * d^2 * sum(dz * (x - mean)) / n)
// (Ioffe and Szegedy 2015, section 3).
template <typename Source>
struct NormCombinePass {
  using Args = typename Source::Args;
  using T = typename Source::Element;
  using Loaded = typename Source::Loaded;
  static constexpr int kSize = Source::kSize;
  static constexpr int kAhead = Source::kAhead;
  static constexpr int kBlocks = Source::kBlocksOfPass;

  const Args& args;
  const Source source;
  const Normalization<kSize> normalization;
  ByChannel<kSize> of_x;      // d^2 * sum(dz * (x - mean)) / n
  ByChannel<kSize> constant;  // sum(dz) / n, and what the mean's second part adds

  __device__ NormCombinePass(const Args& all, int64_t channel)
      : args(all), source(all, channel), normalization(all, channel) {
    const double part = 1 / (args.sums[0] > 1 ? args.sums[0] : 1.0);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const int64_t c = channel + i;
      const double inverse = args.moments[args.channels + c];
      const double factor = inverse * inverse * args.sums[1 + args.channels + c] * part;
      of_x[i] = static_cast<float>(factor);
      constant[i] = static_cast<float>(args.sums[1 + c] * part -
                                       args.moments[2 * args.channels + c] * factor);
    }
  }
  __device__ Loaded Read(int64_t offset, int64_t pixel) const { return source.Read(offset, pixel); }
  __device__ void Visit(const Loaded& loaded, int64_t offset) const {
    T* const to = static_cast<T*>(args.dx) + offset;
    if (!loaded.is_valid) return StoreZeros<T, kSize>(args.accumulates_dx, to);
    float x[kSize];
    float dz[kSize];
    source.Unpack(loaded, normalization, x, dz);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const float difference = (x[i] - normalization.mean[i]) * of_x[i];
      dz[i] = normalization.scale[i] * ((dz[i] - constant[i]) - difference);
    }
    StoreOrAdd(dz, args.accumulates_dx, to);
  }
};

inline int64_t PixelsOf(const NormArgs& args) { return args.batch.rows * args.row_pixels; }

inline bool VectorsAllowed(const NormArgs& args, std::initializer_list<const void*> memories) {
  return AllowVectors(memories, SizeOf(args.type), {args.channels});
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_NORM_CUH_
