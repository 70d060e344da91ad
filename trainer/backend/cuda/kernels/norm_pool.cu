// A batch norm, its ReLU and the max pool behind it in one. What lies between is the largest value
// of a ResNet, and so is its gradient; neither is stored. Forward, a window computes again what it
// covers: from the same x, and rounded as if it had been stored. Backward, a pixel gathers from the
// windows that it lies in, in their order, in each of the norm's two passes.
//
// Threads stay at their channels, and indices have 32 bits.

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trainer/backend/cuda/kernels/columns.cuh"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/norm.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

// The pixels of images, which follow one another.
class Images {
 public:
  struct Pixel {
    int row;
    int y;
    int x;
  };

  Images(int64_t height, int64_t width)
      : pixels_(static_cast<int>(height * width)),
        width_(static_cast<int>(width)),
        by_pixels_(height * width),
        by_width_(width) {}

  __device__ Pixel At(int64_t index) const {
    const auto pixel = static_cast<int>(index);
    const int row = by_pixels_.Divide(pixel);
    const int rest = pixel - row * pixels_;
    const int y = by_width_.Divide(rest);
    return {row, y, rest - y * width_};
  }

 private:
  int pixels_;
  int width_;
  Divider by_pixels_;
  Divider by_width_;
};

// The windows along one axis.
class Axis {
 public:
  // [begin, end): places of a window, or windows.
  struct Range {
    int begin;
    int end;
  };

  Axis(const Window& window, int axis, int64_t in, int64_t out)
      : kernel_(static_cast<int>(window.kernel[axis])),
        stride_(static_cast<int>(window.stride[axis])),
        padding_(static_cast<int>(window.padding[2 * axis])),
        in_(static_cast<int>(in)),
        out_(static_cast<int>(out)),
        by_stride_(window.stride[axis]) {}

  __device__ int kernel() const { return kernel_; }
  __device__ int in() const { return in_; }
  __device__ int out() const { return out_; }
  // Where window `out` begins; below 0 it is padding.
  __device__ int BeginOf(int out) const { return out * stride_ - padding_; }
  // The places of a window that lie in the image.
  __device__ Range PlacesInImage(int window_begin) const {
    const int end = in_ - window_begin;
    return {window_begin < 0 ? -window_begin : 0, end < kernel_ ? end : kernel_};
  }
  // The windows that a pixel lies in.
  __device__ Range WindowsOf(int pixel) const {
    const int distance = pixel + padding_;
    const int begin = distance - kernel_ + stride_;
    const int end = by_stride_.Divide(distance) + 1;
    return {begin > 0 ? by_stride_.Divide(begin) : 0, end < out_ ? end : out_};
  }

 private:
  int kernel_;
  int stride_;
  int padding_;
  int in_;
  int out_;
  Divider by_stride_;
};

// The arguments, and what is worked out of them once.
struct PooledNorm : NormPoolArgs {
  explicit PooledNorm(const NormPoolArgs& args)
      : NormPoolArgs(args),
        in(pool.height, pool.width),
        out(pool.out_height, pool.out_width),
        down(pool.window, 0, pool.height, pool.out_height),
        across(pool.window, 1, pool.width, pool.out_width),
        step(static_cast<uint32_t>(channels)) {}

  // Of a pixel's first channel.
  __device__ uint64_t OffsetOf(int pixel) const {
    return uint64_t{static_cast<uint32_t>(pixel)} * step;
  }

  Images in;
  Images out;
  Axis down;
  Axis across;
  uint32_t step;  // from a pixel to the next: the channels
};

// Loads that a thread begins before it needs the first: a window of three has its line at once, and
// a pixel that lies in two windows side by side has both. Where there are fewer, it loads the last
// again, so that the threads of a warp do the same.
constexpr int kPlacesAtOnce = 3;

__device__ inline int Smaller(int a, int b) { return a < b ? a : b; }

// The places of maxima of a thread's channels, as they are compared: four in a word where there are
// so many.
template <int kSize>
struct Places {
  static constexpr int kInWord = kSize % 4 == 0 ? 4 : 1;
  using Word = std::conditional_t<kInWord == 4, uint32_t, uint8_t>;

  Pack<Word, kSize / kInWord> words;

  __device__ explicit Places(const uint8_t* from)
      : words(LoadPack<kSize / kInWord>(reinterpret_cast<const Word*>(from))) {}
  // True if channel `i` has the place whose byte is in each byte of `places`.
  __device__ bool Has(uint32_t places, int i) const {
    const uint32_t difference = words[i / kInWord] ^ places;
    return (difference & (0xFFu << (8 * (i % kInWord)))) == 0;
  }
};

// The maximum of a window as the pool finds it among stored values: the first of equals, or the
// last NaN. The ReLU is left out but for the first place: what it would make zero is not larger.
template <typename T, int kPack>
struct NormPoolPass {
  using Args = PooledNorm;
  static constexpr int kSize = kPack;
  static constexpr int kAhead = 1;  // it reads several pixels of its own at a time
  static constexpr int kBlocks = 3;
  using Values = Pack<T, kSize>;
  struct Loaded {
    int64_t pixel;
  };

  struct Maximum {
    float values[kSize];
    int places[kSize];
  };

  const PooledNorm& args;
  Normalization<kSize> normalization;
  int64_t channel;

  __device__ NormPoolPass(const PooledNorm& all, int64_t channel_in)
      : args(all), normalization(all, channel_in), channel(channel_in) {}

  // Of the output.
  __device__ Loaded Read(int64_t, int64_t pixel) const { return {pixel}; }
  __device__ void Visit(const Loaded& loaded, int64_t offset) const {
    const Images::Pixel at = args.out.At(loaded.pixel);
    const int top = args.down.BeginOf(at.y);
    const int left = args.across.BeginOf(at.x);
    const Axis::Range down = args.down.PlacesInImage(top);
    const Axis::Range across = args.across.PlacesInImage(left);
    Maximum maximum = {};
    if (down.begin < down.end && across.begin < across.end) {
      const int first = (at.row * args.down.in() + top) * args.across.in() + left;
      Find(first, down, across, maximum);
    }
    Store(maximum.values, static_cast<T*>(args.pool.to) + offset);
    if (args.pool.places != nullptr) StorePlaces(maximum, args.pool.places + offset);
  }

  // `first`: the pixel at the window's first place, or where it would be.
  __device__ void Find(int first, const Axis::Range& down, const Axis::Range& across,
                       Maximum& maximum) const {
    int line = first + down.begin * args.across.in();
    Begin(At(line + across.begin), down.begin * args.across.kernel() + across.begin, maximum);
    for (int y = down.begin; y < down.end; ++y, line += args.across.in()) {
      const int place = y * args.across.kernel();
      for (int x = across.begin; x < across.end; x += kPlacesAtOnce) {
        Values loaded[kPlacesAtOnce];
        MILLRACE_UNROLL
        for (int i = 0; i < kPlacesAtOnce; ++i) {
          loaded[i] = At(line + Smaller(x + i, across.end - 1));
        }
        MILLRACE_UNROLL
        for (int i = 0; i < kPlacesAtOnce; ++i) {  // the last once more changes nothing
          Take(loaded[i], place + Smaller(x + i, across.end - 1), maximum);
        }
      }
    }
  }
  __device__ Values At(int pixel) const {
    return LoadPack<kSize>(static_cast<const T*>(args.x) + channel + args.OffsetOf(pixel));
  }
  __device__ void Begin(const Values& x, int place, Maximum& maximum) const {
    float values[kSize];
    UnpackTo(x, values);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const float value = normalization.Of(values[i], i);
      maximum.values[i] = Rounded<T>(value < 0 ? 0 : value);
      maximum.places[i] = place;
    }
  }
  __device__ void Take(const Values& x, int place, Maximum& maximum) const {
    float values[kSize];
    UnpackTo(x, values);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      const float value = Rounded<T>(normalization.Of(values[i], i));
      const bool is_larger = value > maximum.values[i] || value != value;
      maximum.values[i] = is_larger ? value : maximum.values[i];
      maximum.places[i] = is_larger ? place : maximum.places[i];
    }
  }
  __device__ static void StorePlaces(const Maximum& maximum, uint8_t* to) {
    uint8_t places[kSize];
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) places[i] = static_cast<uint8_t>(maximum.places[i]);
    StorePack(Pack<uint8_t, kSize>::Of(places), to);
  }
};

// A Source (norm.cuh): dz of a pixel is the sum of the gradients of the maxima that it is, rounded
// as if it had been stored, behind the ReLU.
template <typename T, int kPack>
struct PooledGradient {
  using Args = PooledNorm;
  using Element = T;
  static constexpr int kSize = kPack;
  static constexpr bool kMayKeep = false;
  static constexpr int kAhead = 1;
  static constexpr int kBlocksOfSums = 2;
  static constexpr int kBlocksOfPass = 2;
  struct Loaded {
    Pack<T, kSize> x;
    Images::Pixel at;
    bool is_valid;
  };

  const PooledNorm& args;
  int64_t channel;

  __device__ PooledGradient(const PooledNorm& all, int64_t channel_in)
      : args(all), channel(channel_in) {}
  __device__ Loaded Read(int64_t offset, int64_t pixel) const {
    const Images::Pixel at = args.in.At(pixel);
    return {LoadPack<kSize>(static_cast<const T*>(args.x) + offset), at,
            args.batch.valid[at.row] != 0};
  }
  __device__ void Unpack(const Loaded& loaded, const Normalization<kSize>& normalization,
                         float (&x)[kSize], float (&dz)[kSize]) const {
    UnpackTo(loaded.x, x);
    const Images::Pixel& at = loaded.at;
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) dz[i] = 0;
    const Axis::Range down = args.down.WindowsOf(at.y);
    const Axis::Range across = args.across.WindowsOf(at.x);
    int line = (at.row * args.down.out() + down.begin) * args.across.out();
    for (int y = down.begin; y < down.end; ++y, line += args.across.out()) {
      // The pixel's place in a window of this line that began at 0.
      const int place = (at.y - args.down.BeginOf(y)) * args.across.kernel() + at.x;
      for (int begin = across.begin; begin < across.end; begin += 2) {
        AddTwo(line, place, {begin, across.end}, dz);
      }
    }
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      dz[i] = normalization.Of(x[i], i) > 0 ? Rounded<T>(dz[i]) : 0;
    }
  }

  // What a window gives: its gradient to its place.
  struct Given {
    Pack<T, kSize> dy;
    Places<kSize> places;
  };
  __device__ Given GivenBy(int window) const {
    const uint64_t offset = args.OffsetOf(window) + channel;
    return {LoadPack<kSize>(static_cast<const T*>(args.pool.from) + offset),
            Places<kSize>(args.pool.places + offset)};
  }
  __device__ static void Add(const Given& given, int place, bool counts, float (&dz)[kSize]) {
    float dy[kSize];
    UnpackTo(given.dy, dy);
    const uint32_t places = static_cast<uint8_t>(place) * 0x01010101u;
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      if (counts && given.places.Has(places, i)) dz[i] += dy[i];
    }
  }
  // Adds the first two windows of `across`.
  __device__ void AddTwo(int line, int place, const Axis::Range& across, float (&dz)[kSize]) const {
    const Given first = GivenBy(line + across.begin);
    const Given second = GivenBy(line + Smaller(across.begin + 1, across.end - 1));
    Add(first, place - args.across.BeginOf(across.begin), true, dz);
    Add(second, place - args.across.BeginOf(across.begin + 1), across.begin + 1 < across.end, dz);
  }
};

absl::Status CheckSizes(const NormPoolArgs& args) {
  if (HasNormPool(args.pool)) return absl::OkStatus();
  const Window& window = args.pool.window;
  return absl::UnimplementedError(absl::StrCat("a norm and a pool in one, of windows of ",
                                               window.kernel[0], " x ", window.kernel[1],
                                               " places and ", PixelsOf(args), " pixels"));
}

}  // namespace

absl::Status PoolNorm(void* stream, const NormPoolArgs& args) {
  const absl::Status status = CheckSizes(args);
  const PoolArgs& pool = args.pool;
  const int64_t pixels = pool.rows * pool.out_height * pool.out_width;
  if (!status.ok() || pixels == 0) return status;
  return WithPacks(args.type, VectorsAllowed(args, {args.x, pool.to, pool.places}),
                   [&]<typename T, int kSize>() {
                     return LaunchPass<NormPoolPass<T, kSize>>(stream, "norm_pool", pixels,
                                                               args.channels, PooledNorm(args));
                   });
}

absl::Status SumNormPoolGradients(void* stream, const NormPoolArgs& args) {
  const absl::Status status = CheckSizes(args);
  if (!status.ok()) return status;
  return WithPacks(args.type, VectorsAllowed(args, {args.x, args.pool.from, args.pool.places}),
                   [&]<typename T, int kSize>() {
                     using Sums = GradientSums<PooledGradient<T, kSize>>;
                     return LaunchSums<Sums, GradientFinish>(stream, "norm_pool_backward_sums",
                                                             PixelsOf(args), args.channels,
                                                             PooledNorm(args), args.scratch);
                   });
}

absl::Status CombineNormPoolGradients(void* stream, const NormPoolArgs& args) {
  const absl::Status status = CheckSizes(args);
  if (!status.ok() || args.dx == nullptr) return status;
  const bool vectors = VectorsAllowed(args, {args.x, args.pool.from, args.pool.places, args.dx});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return LaunchPass<NormCombinePass<PooledGradient<T, kSize>>>(
        stream, "norm_pool_backward_combine", PixelsOf(args), args.channels, PooledNorm(args));
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
