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
  static constexpr int kAhead = 4;
  static constexpr int kBlocks = 3;
  struct Loaded {
    Pack<T, kSize> x;
    bool is_valid;
  };

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
  __device__ Loaded Read(int64_t offset, int64_t pixel) const {
    return {LoadPack<kSize>(static_cast<const T*>(args.x) + offset), IsValid(args, pixel)};
  }
  __device__ bool Add(const Loaded& loaded, int64_t, float (&sums)[kSums][kSize]) const {
    if (!loaded.is_valid) return false;
    float x[kSize];
    Unpack(loaded.x, x);
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

__device__ inline void StoreMoments(const NormArgs& args, int64_t channel, double mean,
                                    double variance) {
  const auto rounded = static_cast<float>(mean);
  args.moments[channel] = rounded;
  args.moments[args.channels + channel] = static_cast<float>(1 / sqrt(variance + args.epsilon));
  args.moments[2 * args.channels + channel] = static_cast<float>(mean - rounded);
}

// The moments of the batch, and its statistics.
__device__ inline void StoreMomentsOfSums(const NormArgs& args, int64_t channel, double count,
                                          double mean, double squares) {
  const double variance = squares / (count > 1 ? count : 1);
  StoreMoments(args, channel, mean, variance);
  if (args.mean != nullptr) args.mean[channel] = static_cast<float>(mean);
  if (args.variance == nullptr) return;
  args.variance[channel] =
      static_cast<float>(count > 1 ? variance * (count / (count - 1)) : variance);
}

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
  __device__ void Add(const float (&record)[kRecords], float strip_count,
                      double (&sums)[kNumbers]) const {
    if (strip_count == 0) return;
    const double count = strip_count;
    const double sum = record[0];
    const double square = record[1];
    const double moved = record[2] - origin;
    sums[0] += sum + count * moved;
    sums[1] += square + 2 * moved * sum + count * moved * moved;
  }
  __device__ void End(int64_t channel, double count, const double* sums) const {
    const double offset = count > 0 ? sums[0] / count : 0;
    const double difference = sums[1] - sums[0] * offset;
    const double squares = difference < 0 ? 0 : difference;  // a NaN stays one
    const double mean = count > 0 ? origin + offset : 0;
    if (channel == 0) args.sums[0] = count;
    args.sums[1 + channel] = mean;
    args.sums[1 + args.channels + channel] = squares;
    if (args.moments != nullptr) StoreMomentsOfSums(args, channel, count, mean, squares);
  }
};

__global__ void MomentsOfSums(NormArgs args) {
  const int64_t channel = FirstIndex();
  if (channel >= args.channels) return;
  StoreMomentsOfSums(args, channel, args.sums[0], args.sums[1 + channel],
                     args.sums[1 + args.channels + channel]);
}

__global__ void MomentsOfRunning(NormArgs args) {
  const int64_t channel = FirstIndex();
  if (channel >= args.channels) return;
  StoreMoments(args, channel, args.mean[channel], args.variance[channel]);
}

// y = the normalised x [+ addend], behind the ReLU, in which a NaN stays one.
template <typename T, int kPack, bool kAdds>
struct NormApplyPass {
  using Args = NormArgs;
  static constexpr int kSize = kPack;
  static constexpr int kAhead = kAdds ? 2 : 4;
  static constexpr int kBlocks = 3;
  struct Loaded {
    Pack<T, kSize> x;
    Pack<T, kSize> addend;
  };

  const NormArgs& args;
  Normalization<kSize> normalization;

  __device__ NormApplyPass(const NormArgs& all, int64_t channel)
      : args(all), normalization(all, channel) {}
  __device__ Loaded Read(int64_t offset, int64_t) const {
    Loaded loaded;
    loaded.x = LoadPack<kSize>(static_cast<const T*>(args.x) + offset);
    if constexpr (kAdds) {
      loaded.addend = LoadPack<kSize>(static_cast<const T*>(args.addend) + offset);
    }
    return loaded;
  }
  __device__ void Visit(const Loaded& loaded, int64_t offset) const {
    float value[kSize];
    Unpack(loaded.x, value);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) value[i] = normalization.Of(value[i], i);
    if constexpr (kAdds) {
      float addend[kSize];
      Unpack(loaded.addend, addend);
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
  kNone,    // there is no ReLU
  kResult,  // y > 0
  kInput,   // the normalised x > 0
};

// f.template operator()<kMask>() for that of a norm.
template <typename F>
absl::Status WithMask(const NormArgs& args, const F& f) {
  if (!args.has_relu) return f.template operator()<Mask::kNone>();
  if (args.y == nullptr) return f.template operator()<Mask::kInput>();
  return f.template operator()<Mask::kResult>();
}

// What the backward passes read of a pixel.
template <typename T, Mask kMask, int kSize>
struct GradientLoads {
  Pack<T, kSize> x;
  Pack<T, kSize> dy;
  Pack<T, kSize> y;  // if the mask comes from it
  bool is_valid;

  static __device__ GradientLoads At(const NormArgs& args, int64_t offset, int64_t pixel) {
    GradientLoads loaded;
    loaded.is_valid = IsValid(args, pixel);
    loaded.x = LoadPack<kSize>(static_cast<const T*>(args.x) + offset);
    loaded.dy = LoadPack<kSize>(static_cast<const T*>(args.dy) + offset);
    if constexpr (kMask == Mask::kResult) {
      loaded.y = LoadPack<kSize>(static_cast<const T*>(args.y) + offset);
    }
    return loaded;
  }
};

// x, and dz: dy where the ReLU let it through.
template <typename T, Mask kMask, int kSize>
__device__ inline void UnpackGradient(const GradientLoads<T, kMask, kSize>& loaded,
                                      const Normalization<kSize>& normalization, float (&x)[kSize],
                                      float (&dz)[kSize]) {
  Unpack(loaded.x, x);
  Unpack(loaded.dy, dz);
  if constexpr (kMask == Mask::kInput) {
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) dz[i] = normalization.Of(x[i], i) > 0 ? dz[i] : 0;
  }
  if constexpr (kMask == Mask::kResult) {
    float y[kSize];
    Unpack(loaded.y, y);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) dz[i] = y[i] > 0 ? dz[i] : 0;
  }
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
  static constexpr int kAhead = kMask == Mask::kResult ? 1 : 2;
  static constexpr int kBlocks = kMask == Mask::kInput ? 2 : 3;
  using Loaded = GradientLoads<T, kMask, kSize>;

  const NormArgs& args;
  Normalization<kSize> normalization;

  __device__ GradientSums(const NormArgs& all, const ColumnThread<kSize>& at, const ColumnShape&)
      : args(all), normalization(all, at.channel) {}
  __device__ Loaded Read(int64_t offset, int64_t pixel) const {
    return Loaded::At(args, offset, pixel);
  }
  __device__ bool Add(const Loaded& loaded, int64_t offset, float (&sums)[kSums][kSize]) const {
    T* const kept = args.dz == nullptr ? nullptr : static_cast<T*>(args.dz) + offset;
    if (!loaded.is_valid) {
      if (kept != nullptr) StoreZeros<T, kSize>(args.accumulates_dz, kept);
      return false;
    }
    float x[kSize];
    float dz[kSize];
    UnpackGradient(loaded, normalization, x, dz);
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
template <typename T, int kPack, Mask kMask>
struct NormCombinePass {
  using Args = NormArgs;
  static constexpr int kSize = kPack;
  static constexpr int kAhead = kMask == Mask::kResult ? 1 : 2;
  static constexpr int kBlocks = 3;
  using Loaded = GradientLoads<T, kMask, kSize>;

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
  __device__ Loaded Read(int64_t offset, int64_t pixel) const {
    return Loaded::At(args, offset, pixel);
  }
  __device__ void Visit(const Loaded& loaded, int64_t offset) const {
    T* const to = static_cast<T*>(args.dx) + offset;
    if (!loaded.is_valid) return StoreZeros<T, kSize>(args.accumulates_dx, to);
    float x[kSize];
    float dz[kSize];
    UnpackGradient(loaded, normalization, x, dz);
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
  const bool vectors = VectorsAllowed(args, {args.x, args.addend, args.y});
  const auto launch = [&]<typename Pass>(Pass*) {
    return LaunchPass<Pass>(stream, "norm_apply", PixelsOf(args), args.channels, args);
  };
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    using Plain = NormApplyPass<T, kSize, false>;
    using Adding = NormApplyPass<T, kSize, true>;
    return args.addend == nullptr ? launch(static_cast<Plain*>(nullptr))
                                  : launch(static_cast<Adding*>(nullptr));
  });
}

absl::Status SumNormGradients(void* stream, const NormArgs& args) {
  const bool vectors = VectorsAllowed(args, {args.x, args.y, args.dy, args.dz});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return WithMask(args, [&]<Mask kMask>() {
      return LaunchSums<GradientSums<T, kSize, kMask>, GradientFinish>(
          stream, "norm_backward_sums", PixelsOf(args), args.channels, args, args.scratch);
    });
  });
}

absl::Status CombineNormGradients(void* stream, const NormArgs& args) {
  if (args.dx == nullptr) return absl::OkStatus();
  const bool vectors = VectorsAllowed(args, {args.x, args.y, args.dy, args.dx});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return WithMask(args, [&]<Mask kMask>() {
      return LaunchPass<NormCombinePass<T, kSize, kMask>>(stream, "norm_backward_combine",
                                                          PixelsOf(args), args.channels, args);
    });
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
