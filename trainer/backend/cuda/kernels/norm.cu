// Batch norm. Sums are of differences: from a value of the channel in the same strip of pixels
// forward, and from the mean backward, so that a mean far from zero costs no bits (the mean itself
// is kept in two parts). The ReLU's mask is not stored but computed again from its result, or from
// x where there was no addend.

#include <cmath>
#include <cstdint>

#include "trainer/backend/cuda/kernels/columns.cuh"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/norm.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

__device__ inline bool IsValidPixel(const NormArgs& args, int64_t pixel) {
  return args.batch.valid[Divide(pixel, args.row_pixels).quotient] != 0;
}

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
    return {LoadPack<kSize>(static_cast<const T*>(args.x) + offset), IsValidPixel(args, pixel)};
  }
  __device__ bool Add(const Loaded& loaded, int64_t, float (&sums)[kSums][kSize]) const {
    if (!loaded.is_valid) return false;
    float x[kSize];
    UnpackTo(loaded.x, x);
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
    UnpackTo(loaded.x, value);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) value[i] = normalization.Of(value[i], i);
    if constexpr (kAdds) {
      float addend[kSize];
      UnpackTo(loaded.addend, addend);
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

// A Source (norm.cuh): dy is stored.
template <typename T, int kPack, Mask kMask>
struct StoredGradient {
  using Args = NormArgs;
  using Element = T;
  static constexpr int kSize = kPack;
  static constexpr bool kMayKeep = true;
  static constexpr int kAhead = kMask == Mask::kResult ? 1 : 2;
  static constexpr int kBlocksOfSums = kMask == Mask::kResult ? 4 : kMask == Mask::kNone ? 3 : 2;
  static constexpr int kBlocksOfPass = 3;
  struct Loaded {
    Pack<T, kSize> x;
    Pack<T, kSize> dy;
    Pack<T, kSize> y;  // if the mask comes from it
    bool is_valid;
  };

  const NormArgs& args;

  __device__ StoredGradient(const NormArgs& all, int64_t) : args(all) {}
  __device__ Loaded Read(int64_t offset, int64_t pixel) const {
    Loaded loaded;
    loaded.is_valid = IsValidPixel(args, pixel);
    loaded.x = LoadPack<kSize>(static_cast<const T*>(args.x) + offset);
    loaded.dy = LoadPack<kSize>(static_cast<const T*>(args.dy) + offset);
    if constexpr (kMask == Mask::kResult) {
      loaded.y = LoadPack<kSize>(static_cast<const T*>(args.y) + offset);
    }
    return loaded;
  }
  __device__ void Unpack(const Loaded& loaded, const Normalization<kSize>& normalization,
                         float (&x)[kSize], float (&dz)[kSize]) const {
    UnpackTo(loaded.x, x);
    UnpackTo(loaded.dy, dz);
    if constexpr (kMask == Mask::kInput) {
      MILLRACE_UNROLL
      for (int i = 0; i < kSize; ++i) dz[i] = normalization.Of(x[i], i) > 0 ? dz[i] : 0;
    }
    if constexpr (kMask == Mask::kResult) {
      float y[kSize];
      UnpackTo(loaded.y, y);
      MILLRACE_UNROLL
      for (int i = 0; i < kSize; ++i) dz[i] = y[i] > 0 ? dz[i] : 0;
    }
  }
};

Grid ChannelGrid(const char* name, int64_t channels) {
  return {.name = name,
          .blocks = static_cast<unsigned>(RoundUp(channels, kThreads)),
          .threads = kThreads};
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
      return LaunchSums<GradientSums<StoredGradient<T, kSize, kMask>>, GradientFinish>(
          stream, "norm_backward_sums", PixelsOf(args), args.channels, args, args.scratch);
    });
  });
}

absl::Status CombineNormGradients(void* stream, const NormArgs& args) {
  if (args.dx == nullptr) return absl::OkStatus();
  const bool vectors = VectorsAllowed(args, {args.x, args.y, args.dy, args.dx});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return WithMask(args, [&]<Mask kMask>() {
      return LaunchPass<NormCombinePass<StoredGradient<T, kSize, kMask>>>(
          stream, "norm_backward_combine", PixelsOf(args), args.channels, args);
    });
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
