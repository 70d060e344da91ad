// Batch norm. Sums are of differences: from a value of the channel in the same strip of pixels
// forward, and from the mean backward, so that a mean far from zero costs no bits (the mean itself
// is kept in two parts). The ReLU's mask is not stored but computed again from its result, or from
// x where there was no addend.

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "trainer/backend/cuda/kernels/columns.cuh"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

__device__ inline bool IsValid(const NormArgs& args, int64_t pixel) {
  return args.batch.valid[Divide(pixel, args.row_pixels).quotient] != 0;
}

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

// Forward: the sums of x - origin and of its square.
template <typename T, int kPack>
struct MomentSums {
  using Args = NormArgs;
  static constexpr int kSize = kPack;
  static constexpr int kSums = 2;
  static constexpr int kRecords = 3;

  const NormArgs& args;
  float origin[kSize] = {};  // the first valid value of the strip

  __device__ MomentSums(const NormArgs& all, const ColumnThread<kSize>& at,
                        const ColumnShape& shape)
      : args(all) {
    int64_t pixel = at.strip_begin;
    while (pixel < at.end) {
      const int64_t row = Divide(pixel, args.row_pixels).quotient;
      if (args.batch.valid[row] != 0) {
        Load(static_cast<const T*>(args.x) + pixel * shape.channels + at.channel, origin);
        return;
      }
      pixel = (row + 1) * args.row_pixels;
    }
  }
  __device__ bool Add(int64_t offset, int64_t pixel, float (&sums)[kSums][kSize]) const {
    if (!IsValid(args, pixel)) return false;
    float x[kSize];
    Load(static_cast<const T*>(args.x) + offset, x);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const float value = x[i] - origin[i];
      sums[0][i] += value;
      sums[1][i] += value * value;
    }
    return true;
  }
  __device__ void StoreOrigin(float* to) const {
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) to[i] = origin[i];
  }
};

// Moves the strips' sums to the origin of the first strip that has values, and adds them.
struct MomentFinish {
  using Args = NormArgs;
  static constexpr int kSums = 2;
  static constexpr int kRecords = 3;

  const NormArgs& args;
  double origin = 0;

  __device__ MomentFinish(const NormArgs& all, const ColumnShape& shape, const Partials& partials,
                          int64_t channel)
      : args(all) {
    const int64_t channels = shape.channels;
    for (int64_t strip = 0; strip < shape.strips; ++strip) {
      origin = partials.records[(strip * kRecords + 2) * channels + channel];
      if (partials.counts[strip] > 0) return;
    }
  }
  template <int kNumbers>
  __device__ void Add(const float* records, float strip_count, double (&sums)[kNumbers]) const {
    if (strip_count == 0) return;
    const double count = strip_count;
    const double sum = records[0];
    const double square = records[args.channels];
    const double moved = records[2 * args.channels] - origin;
    sums[0] += sum + count * moved;
    sums[1] += square + 2 * moved * sum + count * moved * moved;
  }
  __device__ void End(int64_t channel, double count, const double* sums) const {
    const double offset = count > 0 ? sums[0] / count : 0;
    const double squares = sums[1] - sums[0] * offset;
    if (channel == 0) args.sums[0] = count;
    args.sums[1 + channel] = count > 0 ? origin + offset : 0;
    args.sums[1 + args.channels + channel] = squares < 0 ? 0 : squares;  // a NaN stays one
  }
};

__device__ inline void StoreMoments(const NormArgs& args, int64_t channel, double mean,
                                    double variance) {
  const auto rounded = static_cast<float>(mean);
  args.moments[channel] = rounded;
  args.moments[args.channels + channel] = static_cast<float>(1 / sqrt(variance + args.epsilon));
  args.moments[2 * args.channels + channel] = static_cast<float>(mean - rounded);
}

__global__ void MomentsOfSums(NormArgs args) {
  const int64_t channel = FirstIndex();
  if (channel >= args.channels) return;
  const double count = args.sums[0];
  const double mean = args.sums[1 + channel];
  const double variance = args.sums[1 + args.channels + channel] / (count > 1 ? count : 1);
  StoreMoments(args, channel, mean, variance);
  if (args.mean != nullptr) args.mean[channel] = static_cast<float>(mean);
  if (args.variance == nullptr) return;
  args.variance[channel] =
      static_cast<float>(count > 1 ? variance * (count / (count - 1)) : variance);
}

__global__ void MomentsOfRunning(NormArgs args) {
  const int64_t channel = FirstIndex();
  if (channel >= args.channels) return;
  StoreMoments(args, channel, args.mean[channel], args.variance[channel]);
}

// y = the normalised x [+ addend], behind the ReLU, in which a NaN stays one.
template <typename T, int kPack>
struct NormApplyPass {
  using Args = NormArgs;
  static constexpr int kSize = kPack;

  const NormArgs& args;
  Normalization<kSize> normalization;

  __device__ NormApplyPass(const NormArgs& all, int64_t channel)
      : args(all), normalization(all, channel) {}
  __device__ void Visit(int64_t offset, int64_t) const {
    float value[kSize];
    Load(static_cast<const T*>(args.x) + offset, value);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) value[i] = normalization.Of(value[i], i);
    if (args.addend != nullptr) {
      float addend[kSize];
      Load(static_cast<const T*>(args.addend) + offset, addend);
      MILLRACE_UNROLL
      for (int i = 0; i < kSize; ++i) value[i] += addend[i];
    }
    if (args.has_relu) {
      MILLRACE_UNROLL
      for (int i = 0; i < kSize; ++i) value[i] = value[i] < 0 ? 0 : value[i];
    }
    Store(value, static_cast<T*>(args.y) + offset);
  }
};

// Where a ReLU's mask comes from.
enum class Mask {
  kResult,  // y > 0; or there is no ReLU
  kInput,   // the normalised x > 0
};

Mask MaskOf(const NormArgs& args) {
  return args.has_relu && args.y == nullptr ? Mask::kInput : Mask::kResult;
}

// dz: dy where the ReLU let it through.
template <typename T, Mask kMask, int kSize>
__device__ inline void LoadBehindRelu(const NormArgs& args,
                                      const Normalization<kSize>& normalization, int64_t offset,
                                      const float (&x)[kSize], float (&dz)[kSize]) {
  Load(static_cast<const T*>(args.dy) + offset, dz);
  if constexpr (kMask == Mask::kInput) {
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) dz[i] = normalization.Of(x[i], i) > 0 ? dz[i] : 0;
    return;
  }
  if (!args.has_relu) return;
  float y[kSize];
  Load(static_cast<const T*>(args.y) + offset, y);
  MILLRACE_UNROLL
  for (int i = 0; i < kSize; ++i) dz[i] = y[i] > 0 ? dz[i] : 0;
}

// In rows of padding a gradient is zero.
template <typename T, int kSize>
__device__ inline void StoreZeros(bool accumulates, T* to) {
  if (accumulates) return;
  const float zeros[kSize] = {};
  Store(zeros, to);
}

// Backward: the sums of dz and dz * (x - mean). Stores dz.
template <typename T, int kPack, Mask kMask>
struct GradientSums {
  using Args = NormArgs;
  static constexpr int kSize = kPack;
  static constexpr int kSums = 2;
  static constexpr int kRecords = 2;

  const NormArgs& args;
  Normalization<kSize> normalization;

  __device__ GradientSums(const NormArgs& all, const ColumnThread<kSize>& at, const ColumnShape&)
      : args(all), normalization(all, at.channel) {}
  __device__ bool Add(int64_t offset, int64_t pixel, float (&sums)[kSums][kSize]) const {
    T* const kept = args.dz == nullptr ? nullptr : static_cast<T*>(args.dz) + offset;
    if (!IsValid(args, pixel)) {
      if (kept != nullptr) StoreZeros<T, kSize>(args.accumulates_dz, kept);
      return false;
    }
    float x[kSize];
    float dz[kSize];
    Load(static_cast<const T*>(args.x) + offset, x);
    LoadBehindRelu<T, kMask>(args, normalization, offset, x, dz);
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
  __device__ void Add(const float* records, float, double (&sums)[kNumbers]) const {
    for (int k = 0; k < kSums; ++k) sums[k] += records[k * args.channels];
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
template <typename T, int kPack, Mask kMask>
struct NormCombinePass {
  using Args = NormArgs;
  static constexpr int kSize = kPack;

  const NormArgs& args;
  Normalization<kSize> normalization;
  ByChannel<kSize> of_x;      // d^2 * sum(dz * (x - mean)) / n
  ByChannel<kSize> constant;  // sum(dz) / n, and what the mean's second part adds

  __device__ NormCombinePass(const NormArgs& all, int64_t channel)
      : args(all), normalization(all, channel) {
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
  __device__ void Visit(int64_t offset, int64_t pixel) const {
    T* const to = static_cast<T*>(args.dx) + offset;
    if (!IsValid(args, pixel)) return StoreZeros<T, kSize>(args.accumulates_dx, to);
    float x[kSize];
    float dz[kSize];
    Load(static_cast<const T*>(args.x) + offset, x);
    LoadBehindRelu<T, kMask>(args, normalization, offset, x, dz);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const float difference = (x[i] - normalization.mean[i]) * of_x[i];
      dz[i] = normalization.scale[i] * ((dz[i] - constant[i]) - difference);
    }
    StoreOrAdd(dz, args.accumulates_dx, to);
  }
};

int64_t PixelsOf(const NormArgs& args) { return args.batch.rows * args.row_pixels; }

Grid ChannelGrid(const char* name, int64_t channels) {
  return {.name = name,
          .blocks = static_cast<unsigned>(RoundUp(channels, kThreads)),
          .threads = kThreads};
}

bool VectorsAllowed(const NormArgs& args, std::initializer_list<const void*> memories) {
  return AllowVectors(memories, SizeOf(args.type), {args.channels});
}

}  // namespace

absl::Status MeasureNorm(void* stream, const NormArgs& args) {
  return WithPacks(args.type, VectorsAllowed(args, {args.x}), [&]<typename T, int kSize>() {
    return LaunchSums<MomentSums<T, kSize>, MomentFinish>(stream, "norm_measure", PixelsOf(args),
                                                          args.channels, args, args.scratch);
  });
}

absl::Status MakeMoments(void* stream, const NormArgs& args) {
  return Launch(stream, ChannelGrid("norm_moments", args.channels), MomentsOfSums, args);
}

absl::Status MakeMomentsOfRunning(void* stream, const NormArgs& args) {
  return Launch(stream, ChannelGrid("norm_moments_of_running", args.channels), MomentsOfRunning,
                args);
}

absl::Status ApplyNorm(void* stream, const NormArgs& args) {
  return WithPacks(args.type, VectorsAllowed(args, {args.x, args.addend, args.y}),
                   [&]<typename T, int kSize>() {
                     return LaunchPass<NormApplyPass<T, kSize>>(
                         stream, "norm_apply", PixelsOf(args), args.channels, args);
                   });
}

absl::Status SumNormGradients(void* stream, const NormArgs& args) {
  const bool vectors = VectorsAllowed(args, {args.x, args.y, args.dy, args.dz});
  const auto launch = [&]<typename Sums>(Sums*) {
    return LaunchSums<Sums, GradientFinish>(stream, "norm_backward_sums", PixelsOf(args),
                                            args.channels, args, args.scratch);
  };
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    using OfInput = GradientSums<T, kSize, Mask::kInput>;
    using OfResult = GradientSums<T, kSize, Mask::kResult>;
    return MaskOf(args) == Mask::kInput ? launch(static_cast<OfInput*>(nullptr))
                                        : launch(static_cast<OfResult*>(nullptr));
  });
}

absl::Status CombineNormGradients(void* stream, const NormArgs& args) {
  if (args.dx == nullptr) return absl::OkStatus();
  const bool vectors = VectorsAllowed(args, {args.x, args.y, args.dy, args.dx});
  const auto launch = [&]<typename Pass>(Pass*) {
    return LaunchPass<Pass>(stream, "norm_backward_combine", PixelsOf(args), args.channels, args);
  };
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    using OfInput = NormCombinePass<T, kSize, Mask::kInput>;
    using OfResult = NormCombinePass<T, kSize, Mask::kResult>;
    return MaskOf(args) == Mask::kInput ? launch(static_cast<OfInput*>(nullptr))
                                        : launch(static_cast<OfResult*>(nullptr));
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
