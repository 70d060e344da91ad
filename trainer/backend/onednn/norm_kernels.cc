#include "trainer/backend/onednn/norm_kernels.h"

#include "trainer/backend/onednn/kernel_targets.h"

namespace millrace::trainer {
namespace {

// A NaN stays one.
MILLRACE_INLINE float Relu(float value) { return value < 0 ? 0 : value; }

// Pixels whose sums are made before they are added to the others.
constexpr int64_t kGroup = 4;

template <typename T, int64_t kPixels>
MILLRACE_INLINE void AddMoments(const T* __restrict x, const NormWork& work) {
  const int64_t channels = work.channels;
  const float* const __restrict origin = work.origin;
  float* const __restrict sums = work.sums;
  float* const __restrict squares = work.products;
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0;
    float square = 0;
    for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
      const float value = Load(x + pixel * channels + c) - origin[c];
      sum += value;
      square += value * value;
    }
    sums[c] += sum;
    squares[c] += square;
  }
}

template <typename T>
MILLRACE_INLINE void SumMoments(const NormWork& work) {
  const T* const x = static_cast<const T*>(work.x);
  int64_t pixel = 0;
  for (; pixel + kGroup <= work.pixels; pixel += kGroup) {
    AddMoments<T, kGroup>(x + pixel * work.channels, work);
  }
  for (; pixel < work.pixels; ++pixel) AddMoments<T, 1>(x + pixel * work.channels, work);
}

template <typename T, bool kAdds, bool kRelu>
MILLRACE_INLINE void ApplyAs(const NormWork& work) {
  const int64_t channels = work.channels;
  const float* const __restrict scale = work.scale;
  const float* const __restrict shift = work.shift;
  for (int64_t pixel = 0; pixel < work.pixels; ++pixel) {
    const T* const __restrict x = static_cast<const T*>(work.x) + pixel * channels;
    const T* const __restrict addend =
        kAdds ? static_cast<const T*>(work.addend) + pixel * channels : nullptr;
    T* const __restrict result = static_cast<T*>(work.result) + pixel * channels;
    for (int64_t c = 0; c < channels; ++c) {
      float value = scale[c] * Load(x + c) + shift[c];
      if constexpr (kAdds) value += Load(addend + c);
      Store(kRelu ? Relu(value) : value, result + c);
    }
  }
}

template <typename T>
MILLRACE_INLINE void Apply(const NormWork& work) {
  const bool has_relu = work.mask != Mask::kNone;
  if (work.addend != nullptr) {
    has_relu ? ApplyAs<T, true, true>(work) : ApplyAs<T, true, false>(work);
  } else {
    has_relu ? ApplyAs<T, false, true>(work) : ApplyAs<T, false, false>(work);
  }
}

template <typename T, int64_t kPixels, Mask kMask, bool kMore, bool kKeeps>
MILLRACE_INLINE void AddSums(int64_t begin, const NormWork& work) {
  const int64_t channels = work.channels;
  const T* const __restrict x = static_cast<const T*>(work.x) + begin;
  const T* const result =
      kMask == Mask::kResult ? static_cast<const T*>(work.result) + begin : nullptr;
  const T* const dy = static_cast<const T*>(work.dy) + begin;
  const T* const more_dy = kMore ? static_cast<const T*>(work.more_dy) + begin : nullptr;
  T* const dz = kKeeps ? static_cast<T*>(work.dz) + begin : nullptr;
  const float* const __restrict scale = work.scale;
  const float* const __restrict shift = work.shift;
  const float* const __restrict origin = work.origin;
  float* const __restrict sums = work.sums;
  float* const __restrict products = work.products;
  MILLRACE_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0;
    float product = 0;
    for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
      const int64_t at = pixel * channels + c;
      const float value = Load(x + at);
      float gradient = Load(dy + at);
      if constexpr (kMore) gradient += Load(more_dy + at);
      if constexpr (kMask == Mask::kInput) {
        gradient = scale[c] * value + shift[c] > 0 ? gradient : 0;
      }
      if constexpr (kMask == Mask::kResult) gradient = Load(result + at) > 0 ? gradient : 0;
      if constexpr (kKeeps) Store(gradient, dz + at);
      sum += gradient;
      product += gradient * (value - origin[c]);
    }
    sums[c] += sum;
    products[c] += product;
  }
}

template <typename T, Mask kMask, bool kMore, bool kKeeps>
MILLRACE_INLINE void SumsAs(const NormWork& work) {
  int64_t pixel = 0;
  for (; pixel + kGroup <= work.pixels; pixel += kGroup) {
    AddSums<T, kGroup, kMask, kMore, kKeeps>(pixel * work.channels, work);
  }
  for (; pixel < work.pixels; ++pixel) {
    AddSums<T, 1, kMask, kMore, kKeeps>(pixel * work.channels, work);
  }
}

template <typename T, Mask kMask>
MILLRACE_INLINE void SumsBehind(const NormWork& work) {
  if (work.more_dy != nullptr) return SumsAs<T, kMask, true, true>(work);
  if (work.dz != nullptr) return SumsAs<T, kMask, false, true>(work);
  SumsAs<T, kMask, false, false>(work);
}

template <typename T>
MILLRACE_INLINE void Sums(const NormWork& work) {
  switch (work.mask) {
    case Mask::kNone:
      return SumsBehind<T, Mask::kNone>(work);
    case Mask::kInput:
      return SumsBehind<T, Mask::kInput>(work);
    case Mask::kResult:
      return SumsBehind<T, Mask::kResult>(work);
  }
}

template <typename T, bool kMasks>
MILLRACE_INLINE void CombineAs(const NormWork& work) {
  const int64_t channels = work.channels;
  const float* const __restrict a = work.a;
  const float* const __restrict b = work.b;
  const float* const __restrict k = work.k;
  const float* const __restrict scale = work.scale;
  const float* const __restrict shift = work.shift;
  for (int64_t pixel = 0; pixel < work.pixels; ++pixel) {
    const T* const __restrict x = static_cast<const T*>(work.x) + pixel * channels;
    const T* const dy = static_cast<const T*>(work.dy) + pixel * channels;
    T* const dx = static_cast<T*>(work.dx) + pixel * channels;
    MILLRACE_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      const float value = Load(x + c);
      float gradient = Load(dy + c);
      if constexpr (kMasks) gradient = scale[c] * value + shift[c] > 0 ? gradient : 0;
      Store(a[c] * gradient + b[c] * value + k[c], dx + c);
    }
  }
}

template <typename T>
MILLRACE_INLINE void Combine(const NormWork& work) {
  work.mask == Mask::kInput ? CombineAs<T, true>(work) : CombineAs<T, false>(work);
}

// The kernels as functions that are compiled for `target`.
#define MILLRACE_NORM_KERNELS(Name, target)                           \
  struct Name {                                                       \
    template <typename T>                                             \
    target static void RunMoments(const NormWork& work) {             \
      SumMoments<T>(work);                                            \
    }                                                                 \
    template <typename T>                                             \
    target static void RunApply(const NormWork& work) {               \
      Apply<T>(work);                                                 \
    }                                                                 \
    template <typename T>                                             \
    target static void RunSums(const NormWork& work) {                \
      Sums<T>(work);                                                  \
    }                                                                 \
    template <typename T>                                             \
    target static void RunCombine(const NormWork& work) {             \
      Combine<T>(work);                                               \
    }                                                                 \
    template <typename T>                                             \
    static constexpr NormKernels Kernels() {                          \
      return {RunMoments<T>, RunApply<T>, RunSums<T>, RunCombine<T>}; \
    }                                                                 \
  }

MILLRACE_NORM_KERNELS(AnyProcessor, );
#if MILLRACE_KERNELS_X86
MILLRACE_NORM_KERNELS(Avx2, MILLRACE_KERNEL_AVX2);
MILLRACE_NORM_KERNELS(Avx512, MILLRACE_KERNEL_AVX512);
#endif

template <typename T>
NormKernels Choose() {
#if MILLRACE_KERNELS_X86
  if (KernelLevel() == SimdLevel::kAvx512) return Avx512::Kernels<T>();
  if (KernelLevel() == SimdLevel::kAvx2) return Avx2::Kernels<T>();
#endif
  return AnyProcessor::Kernels<T>();
}

}  // namespace

const NormKernels& NormKernelsOf(bool is_half) {
  static const NormKernels kFloat = Choose<float>();
  static const NormKernels kHalfFloat = Choose<BFloat>();
  return is_half ? kHalfFloat : kFloat;
}

}  // namespace millrace::trainer
