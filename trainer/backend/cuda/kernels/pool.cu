// Pools. A thread makes some channels of one pixel, of the output forward and of the input
// backward: it gathers the gradients of the windows that the pixel lies in, in their order, so that
// no two threads add to one place.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

constexpr int64_t kMaxPlaces = 256;  // of a window: a place has a number in a byte

// A pixel and its first channel for a thread.
struct PoolPlace {
  int64_t row;
  int64_t y;
  int64_t x;
  int64_t channel;
};
__device__ inline PoolPlace PlaceOf(int64_t index, int64_t height, int64_t width, int64_t packs,
                                    int size) {
  PoolPlace place;
  place.channel = TakeLast(index, packs) * size;
  place.x = TakeLast(index, width);
  place.y = TakeLast(index, height);
  place.row = index;
  return place;
}

// Places [begin, end) of a window along one axis that lie in the image: `first` + i * dilation.
struct WindowSide {
  int64_t first;
  int64_t begin;
  int64_t end;
};
__device__ inline WindowSide SideOf(const Window& window, int axis, int64_t out, int64_t extent) {
  const int64_t dilation = window.dilation[axis];
  WindowSide side;
  side.first = out * window.stride[axis] - window.padding[2 * axis];
  side.begin = side.first < 0 ? Divide(dilation - 1 - side.first, dilation).quotient : 0;
  side.end = 0;
  if (side.first < extent) side.end = Divide(extent - side.first + dilation - 1, dilation).quotient;
  if (side.end > window.kernel[axis]) side.end = window.kernel[axis];
  return side;
}
__device__ inline int64_t Length(const WindowSide& side) {
  return side.end > side.begin ? side.end - side.begin : 0;
}

template <typename T, int kSize>
__global__ void MaxPoolKernel(PoolArgs args, int64_t threads) {
  const int64_t packs = args.channels / kSize;
  for (int64_t i = FirstIndex(); i < threads; i += IndexStep()) {
    const PoolPlace at = PlaceOf(i, args.out_height, args.out_width, packs, kSize);
    const WindowSide down = SideOf(args.window, 0, at.y, args.height);
    const WindowSide across = SideOf(args.window, 1, at.x, args.width);
    float best[kSize] = {};
    uint8_t places[kSize] = {};
    bool is_first = true;
    for (int64_t ky = down.begin; ky < down.end; ++ky) {
      const int64_t y = down.first + ky * args.window.dilation[0];
      for (int64_t kx = across.begin; kx < across.end; ++kx) {
        const int64_t x = across.first + kx * args.window.dilation[1];
        const int64_t pixel = (at.row * args.height + y) * args.width + x;
        const auto place = static_cast<uint8_t>(ky * args.window.kernel[1] + kx);
        float values[kSize];
        Load(static_cast<const T*>(args.from) + pixel * args.channels + at.channel, values);
        MILLRACE_UNROLL
        for (int k = 0; k < kSize; ++k) {  // a NaN is the largest
          const bool is_larger = is_first || values[k] > best[k] || values[k] != values[k];
          best[k] = is_larger ? values[k] : best[k];
          places[k] = is_larger ? place : places[k];
        }
        is_first = false;
      }
    }
    Store(best, static_cast<T*>(args.to) + i * kSize);
    if (args.places != nullptr) {
      StorePack(Pack<uint8_t, kSize>::Of(places), args.places + i * kSize);
    }
  }
}

template <typename T, int kSize>
__global__ void AveragePoolKernel(PoolArgs args, int64_t threads) {
  const int64_t packs = args.channels / kSize;
  for (int64_t i = FirstIndex(); i < threads; i += IndexStep()) {
    const PoolPlace at = PlaceOf(i, args.out_height, args.out_width, packs, kSize);
    const WindowSide down = SideOf(args.window, 0, at.y, args.height);
    const WindowSide across = SideOf(args.window, 1, at.x, args.width);
    float sums[kSize] = {};
    for (int64_t ky = down.begin; ky < down.end; ++ky) {
      const int64_t y = down.first + ky * args.window.dilation[0];
      for (int64_t kx = across.begin; kx < across.end; ++kx) {
        const int64_t x = across.first + kx * args.window.dilation[1];
        const int64_t pixel = (at.row * args.height + y) * args.width + x;
        float values[kSize];
        Load(static_cast<const T*>(args.from) + pixel * args.channels + at.channel, values);
        MILLRACE_UNROLL
        for (int k = 0; k < kSize; ++k) sums[k] += values[k];
      }
    }
    const int64_t count = Length(down) * Length(across);
    MILLRACE_UNROLL
    for (int k = 0; k < kSize; ++k) sums[k] /= static_cast<float>(count > 0 ? count : 1);
    Store(sums, static_cast<T*>(args.to) + i * kSize);
  }
}

// The windows along one axis that hold the pixel `at`: of those from `out` on that Next finds, the
// pixel has place `place`. In the order of the output.
struct Windows {
  int64_t kernel;
  int64_t stride;
  int64_t dilation;
  int64_t distance;  // from the begin of window 0 to the pixel
  int64_t extent;    // of the output
  int64_t out;
  int64_t place = 0;

  __device__ Windows(const Window& window, int axis, int64_t at, int64_t out_extent)
      : kernel(window.kernel[axis]),
        stride(window.stride[axis]),
        dilation(window.dilation[axis]),
        distance(at + window.padding[2 * axis]),
        extent(out_extent) {
    const int64_t behind = distance - (kernel - 1) * dilation;  // the earliest begin
    out = behind > 0 ? Divide(behind + stride - 1, stride).quotient : 0;
  }
  // Goes on to the first window from `out` on; false: there is none.
  __device__ bool Find() {
    for (; out < extent && out * stride <= distance; ++out) {
      const Quotient steps = Divide(distance - out * stride, dilation);
      place = steps.quotient;
      if (steps.rest == 0) return true;
    }
    return false;
  }
};

// Adds to `sums` what an output pixel gives to a pixel of its window.
template <typename T, int kSize>
struct GiveOfMax {
  const PoolArgs& args;

  __device__ void operator()(const Windows& down, const Windows& across, int64_t offset,
                             float (&sums)[kSize]) const {
    const auto place = static_cast<uint8_t>(down.place * args.window.kernel[1] + across.place);
    const auto places = LoadPack<kSize>(args.places + offset);
    float dy[kSize];
    Load(static_cast<const T*>(args.from) + offset, dy);
    MILLRACE_UNROLL
    for (int k = 0; k < kSize; ++k) sums[k] += places[k] == place ? dy[k] : 0;
  }
};

template <typename T, int kSize>
struct GiveOfAverage {
  const PoolArgs& args;

  __device__ void operator()(const Windows& down, const Windows& across, int64_t offset,
                             float (&sums)[kSize]) const {
    const int64_t count = Length(SideOf(args.window, 0, down.out, args.height)) *
                          Length(SideOf(args.window, 1, across.out, args.width));
    float dy[kSize];
    Load(static_cast<const T*>(args.from) + offset, dy);
    MILLRACE_UNROLL
    for (int k = 0; k < kSize; ++k) sums[k] += dy[k] / static_cast<float>(count);
  }
};

template <typename T, int kSize, typename Give>
__global__ void PoolBackwardKernel(PoolArgs args, int64_t threads) {
  const int64_t packs = args.channels / kSize;
  const Give give{args};
  for (int64_t i = FirstIndex(); i < threads; i += IndexStep()) {
    const PoolPlace at = PlaceOf(i, args.height, args.width, packs, kSize);
    float sums[kSize] = {};
    for (Windows down(args.window, 0, at.y, args.out_height); down.Find(); ++down.out) {
      for (Windows across(args.window, 1, at.x, args.out_width); across.Find(); ++across.out) {
        const int64_t pixel = (at.row * args.out_height + down.out) * args.out_width + across.out;
        give(down, across, pixel * args.channels + at.channel, sums);
      }
    }
    StoreOrAdd(sums, args.accumulates, static_cast<T*>(args.to) + i * kSize);
  }
}

Grid PoolGrid(const char* name, int64_t threads) {
  return {.name = name, .blocks = BlocksFor(threads), .threads = kThreads};
}

absl::Status CheckPlaces(const PoolArgs& args) {
  const int64_t places = args.window.kernel[0] * args.window.kernel[1];
  if (args.is_average || places <= kMaxPlaces) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "a max pool of ", places, " places: on this device a window has at most ", kMaxPlaces));
}

bool PoolVectors(const PoolArgs& args) {
  return AllowVectors({args.from, args.to, args.places}, SizeOf(args.type), {args.channels});
}

}  // namespace

absl::Status Pool(void* stream, const PoolArgs& args) {
  const absl::Status status = CheckPlaces(args);
  const int64_t values = args.rows * args.out_height * args.out_width * args.channels;
  if (!status.ok() || values == 0) return status;
  return WithPacks(args.type, PoolVectors(args), [&]<typename T, int kSize>() {
    const int64_t threads = values / kSize;
    return args.is_average
               ? Launch(stream, PoolGrid("pool (average)", threads), AveragePoolKernel<T, kSize>,
                        args, threads)
               : Launch(stream, PoolGrid("pool", threads), MaxPoolKernel<T, kSize>, args, threads);
  });
}

absl::Status PoolBackward(void* stream, const PoolArgs& args) {
  const absl::Status status = CheckPlaces(args);
  const int64_t values = args.rows * args.height * args.width * args.channels;
  if (!status.ok() || values == 0) return status;
  return WithPacks(args.type, PoolVectors(args), [&]<typename T, int kSize>() {
    const int64_t threads = values / kSize;
    return args.is_average
               ? Launch(stream, PoolGrid("pool_backward (average)", threads),
                        PoolBackwardKernel<T, kSize, GiveOfAverage<T, kSize>>, args, threads)
               : Launch(stream, PoolGrid("pool_backward", threads),
                        PoolBackwardKernel<T, kSize, GiveOfMax<T, kSize>>, args, threads);
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
