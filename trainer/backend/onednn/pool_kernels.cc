#include "trainer/backend/onednn/pool_kernels.h"

#include <algorithm>
#include <cstring>

#include "trainer/backend/onednn/kernel_targets.h"

namespace millrace::trainer {
namespace {

// Places [begin, end) of a window along one axis that lie in the image.
struct Reach {
  int64_t first = 0;  // of the window, in the image
  int64_t begin = 0;
  int64_t end = 0;
};

MILLRACE_INLINE Reach ReachOf(int64_t out, int64_t stride, int64_t padding, int64_t kernel,
                              int64_t extent) {
  const int64_t first = out * stride - padding;
  return {first, std::max<int64_t>(0, -first), std::min(kernel, extent - first)};
}

// Calls `visit` with the number of each place of an output pixel's window, and the offset of the
// pixel that lies there.
template <typename Visit>
MILLRACE_INLINE void VisitWindow(const PoolShape& shape, int64_t y, int64_t x, const Visit& visit) {
  const Window& window = shape.window;
  const Reach down =
      ReachOf(y, window.stride[0], window.padding[0], window.kernel[0], shape.height);
  const Reach across =
      ReachOf(x, window.stride[1], window.padding[2], window.kernel[1], shape.width);
  for (int64_t i = down.begin; i < down.end; ++i) {
    for (int64_t k = across.begin; k < across.end; ++k) {
      const int64_t pixel = (down.first + i) * shape.width + across.first + k;
      visit(static_cast<uint8_t>(i * window.kernel[1] + k), pixel * shape.channels);
    }
  }
}

// Takes a pixel's values where they are larger; a NaN is the largest.
template <typename T>
struct TakeLargest {
  const T* source;
  T* __restrict output;
  uint8_t* __restrict places;
  int64_t channels;
  bool* is_first;

  MILLRACE_INLINE void operator()(uint8_t place, int64_t offset) const {
    const T* const __restrict from = source + offset;
    if (*is_first) {
      *is_first = false;
      std::copy_n(from, channels, output);
      std::fill_n(places, channels, place);
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const float value = Load(from + c);
      const float best = Load(output + c);
      const bool is_larger = value > best || value != value;
      Store(is_larger ? value : best, output + c);
      places[c] = is_larger ? place : places[c];
    }
  }
};

template <typename T>
MILLRACE_INLINE void Forward(const PoolWork& work) {
  const PoolShape& shape = *work.shape;
  for (int64_t y = 0; y < shape.out_height; ++y) {
    for (int64_t x = 0; x < shape.out_width; ++x) {
      const int64_t at = (y * shape.out_width + x) * shape.channels;
      bool is_first = true;
      VisitWindow(
          shape, y, x,
          TakeLargest<T>{static_cast<const T*>(work.source), static_cast<T*>(work.output) + at,
                         work.places + at, shape.channels, &is_first});
    }
  }
}

// Adds a gradient to the pixel that it came from.
template <typename T, bool kRelu, bool kAdds>
struct GiveGradient {
  const T* __restrict dy;
  const T* __restrict output;
  const uint8_t* __restrict places;
  T* dx;
  int64_t channels;

  MILLRACE_INLINE void operator()(uint8_t place, int64_t offset) const {
    T* const __restrict to = dx + offset;
    for (int64_t c = 0; c < channels; ++c) {
      bool is_here = places[c] == place;
      if constexpr (kRelu) is_here = is_here && Load(output + c) > 0;
      float gradient = is_here ? Load(dy + c) : 0;
      if constexpr (kAdds) gradient += Load(to + c);
      Store(gradient, to + c);
    }
  }
};

template <typename T, bool kRelu, bool kAdds>
MILLRACE_INLINE void BackwardAs(const PoolWork& work) {
  const PoolShape& shape = *work.shape;
  if (kAdds) std::memset(work.dx, 0, shape.source_values() * sizeof(T));
  for (int64_t y = 0; y < shape.out_height; ++y) {
    for (int64_t x = 0; x < shape.out_width; ++x) {
      const int64_t at = (y * shape.out_width + x) * shape.channels;
      VisitWindow(shape, y, x,
                  GiveGradient<T, kRelu, kAdds>{
                      static_cast<const T*>(work.dy) + at, static_cast<const T*>(work.output) + at,
                      work.places + at, static_cast<T*>(work.dx), shape.channels});
    }
  }
}

// True if every pixel of the source lies in one window.
bool IsTiled(const PoolShape& shape) {
  const Window& window = shape.window;
  return window.stride == window.kernel && window.padding == std::array<int64_t, 4>{0, 0, 0, 0} &&
         shape.out_height * window.stride[0] == shape.height &&
         shape.out_width * window.stride[1] == shape.width;
}

template <typename T>
MILLRACE_INLINE void Backward(const PoolWork& work) {
  if (IsTiled(*work.shape)) {
    work.has_relu ? BackwardAs<T, true, false>(work) : BackwardAs<T, false, false>(work);
  } else {
    work.has_relu ? BackwardAs<T, true, true>(work) : BackwardAs<T, false, true>(work);
  }
}

// The kernels as functions that are compiled for `target`.
#define MILLRACE_POOL_KERNELS(Name, target)                \
  struct Name {                                            \
    template <typename T>                                  \
    target static void RunForward(const PoolWork& work) {  \
      Forward<T>(work);                                    \
    }                                                      \
    template <typename T>                                  \
    target static void RunBackward(const PoolWork& work) { \
      Backward<T>(work);                                   \
    }                                                      \
    template <typename T>                                  \
    static constexpr PoolKernels Kernels() {               \
      return {RunForward<T>, RunBackward<T>};              \
    }                                                      \
  }

MILLRACE_POOL_KERNELS(AnyProcessor, );
#if MILLRACE_KERNELS_X86
MILLRACE_POOL_KERNELS(Avx2, MILLRACE_KERNEL_AVX2);
MILLRACE_POOL_KERNELS(Avx512, MILLRACE_KERNEL_AVX512);
#endif

template <typename T>
PoolKernels Choose() {
#if MILLRACE_KERNELS_X86
  if (KernelLevel() == SimdLevel::kAvx512) return Avx512::Kernels<T>();
  if (KernelLevel() == SimdLevel::kAvx2) return Avx2::Kernels<T>();
#endif
  return AnyProcessor::Kernels<T>();
}

}  // namespace

const PoolKernels& PoolKernelsOf(bool is_half) {
  static const PoolKernels kFloat = Choose<float>();
  static const PoolKernels kHalfFloat = Choose<BFloat>();
  return is_half ? kHalfFloat : kFloat;
}

}  // namespace millrace::trainer
