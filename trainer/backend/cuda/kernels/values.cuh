#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_VALUES_CUH_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_VALUES_CUH_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/status.h"
#include "trainer/backend/cuda/kernels/launch.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

// Elements of tensors: in memory they are float, BFloat, Half or an integer, in registers float.
// The bits are the host's (base/half.h) but for the payload of a NaN.

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

#if defined(__CUDACC__)
__device__ inline float AsFloat(BFloat value) {
  return __uint_as_float(uint32_t{value.bits} << 16);
}
__device__ inline float AsFloat(Half value) {
  __half_raw raw;
  raw.x = value.bits;
  return __half2float(__half(raw));
}
__device__ inline void Round(float value, BFloat* to) {
  to->bits = static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(value)).x;
}
__device__ inline void Round(float value, Half* to) {
  to->bits = static_cast<__half_raw>(__float2half_rn(value)).x;
}
#else
inline float AsFloat(BFloat value) { return ToFloat(value); }
inline float AsFloat(Half value) { return ToFloat(value); }
inline void Round(float value, BFloat* to) { *to = ToBFloat(value); }
inline void Round(float value, Half* to) { *to = ToHalf(value); }
#endif

template <typename T>
__device__ inline float AsFloat(T value)
  requires std::is_arithmetic_v<T>
{
  return static_cast<float>(value);
}
__device__ inline void Round(float value, float* to) { *to = value; }

// As it comes back from memory of Ts.
template <typename T>
__device__ inline float Rounded(float value) {
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<T, BFloat>) {
    // As the upper half of a pair it is in its place already; one alone is a slower instruction.
    const __nv_bfloat162 pair = __floats2bfloat162_rn(0, value);
    return __uint_as_float(reinterpret_cast<const uint32_t&>(pair));
  }
#endif
  T rounded;
  Round(value, &rounded);
  return AsFloat(rounded);
}

// Neighbours that are loaded and stored together, in at most 16 bytes at a time. They are kept as
// words until they are needed: nvcc waits for a load before it takes it apart, so what is loaded
// ahead must not be taken apart.
constexpr size_t kVectorBytes = 16;
template <typename T, int kSize>
struct alignas(kSize * sizeof(T) < kVectorBytes ? kSize * sizeof(T) : kVectorBytes) Pack {
  using Word =
      std::conditional_t<(sizeof(T) > 4), uint64_t,
                         std::conditional_t<kSize * sizeof(T) % 4 == 0, uint32_t,
                                            std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  static constexpr int kOfWord = static_cast<int>(sizeof(Word) / sizeof(T));
  static constexpr int kWords = kSize / kOfWord;

  Word words[kWords];

  static __device__ Pack Of(const T (&values)[kSize]) {
    Pack pack = {};
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      Word bits = 0;
      memcpy(&bits, &values[i], sizeof(T));
      pack.words[i / kOfWord] |= static_cast<Word>(bits << Shift(i));
    }
    return pack;
  }
  __device__ T operator[](int i) const {
    const auto bits = static_cast<Word>(words[i / kOfWord] >> Shift(i));
    T value;
    memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
  }

 private:
  static constexpr int Shift(int i) { return i % kOfWord * static_cast<int>(8 * sizeof(T)); }
};
// How many of them fill a vector.
template <typename T>
constexpr int kPackOf = static_cast<int>(kVectorBytes / sizeof(T));

template <int kSize, typename T>
__device__ inline Pack<T, kSize> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, kSize>*>(from);
}
template <int kSize, typename T>
__device__ inline void UnpackTo(const Pack<T, kSize>& pack, float (&to)[kSize]) {
  MILLRACE_UNROLL
  for (int i = 0; i < kSize; ++i) to[i] = AsFloat(pack[i]);
}
template <int kSize, typename T>
__device__ inline void Load(const T* from, float (&to)[kSize]) {
  UnpackTo(LoadPack<kSize>(from), to);
}

#if defined(__CUDACC__)
// By the instruction for vectors: nvcc may store the words one by one, which takes three times as
// long.
__device__ inline void StoreVector(const uint32_t* words, void* to) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
#endif

template <int kSize, typename T>
__device__ inline void StorePack(const Pack<T, kSize>& pack, T* to) {
#if defined(__CUDACC__)
  if constexpr (sizeof(pack) % kVectorBytes == 0 && sizeof(pack.words[0]) == sizeof(uint32_t)) {
    MILLRACE_UNROLL
    for (int i = 0; i < pack.kWords; i += 4) StoreVector(&pack.words[i], to + i * pack.kOfWord);
    return;
  }
#endif
  *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
}

template <int kSize, typename T>
__device__ inline void Store(const float (&from)[kSize], T* to) {
  T rounded[kSize];
  MILLRACE_UNROLL
  for (int i = 0; i < kSize; ++i) Round(from[i], &rounded[i]);
  StorePack(Pack<T, kSize>::Of(rounded), to);
}

// Stores the values, or adds them to those that are there.
template <int kSize, typename T>
__device__ inline void StoreOrAdd(float (&values)[kSize], bool adds, T* to) {
  if (adds) {
    float before[kSize];
    Load(to, before);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) values[i] += before[i];
  }
  Store(values, to);
}

// True if vectors may be loaded from all of `memories`, of which some may be null, and rows of
// `extents` elements of `element_bytes` bytes are whole vectors.
inline bool AllowVectors(std::initializer_list<const void*> memories, size_t element_bytes,
                         std::initializer_list<int64_t> extents) {
  for (const void* const memory : memories) {
    if (reinterpret_cast<uintptr_t>(memory) % kVectorBytes != 0) return false;
  }
  for (const int64_t extent : extents) {
    if (extent % static_cast<int64_t>(kVectorBytes / element_bytes) != 0) return false;
  }
  return true;
}

// f.template operator()<T>() for the type of a tensor's elements.
template <typename F>
absl::Status WithType(DType type, const F& f) {
  switch (type) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kBF16:
      return f.template operator()<BFloat>();
    case DType::kF16:
      return f.template operator()<Half>();
    default:
      return absl::InvalidArgumentError(absl::StrCat("no kernel computes in ", ToAbsl(Name(type))));
  }
}

// f.template operator()<T, kSize>(), where threads take vectors of kSize elements if `vectors` is
// true, and single ones else.
template <typename F>
absl::Status WithPacks(DType type, bool vectors, const F& f) {
  return WithType(type, [&]<typename T>() {
    return vectors ? f.template operator()<T, kPackOf<T>>() : f.template operator()<T, 1>();
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_VALUES_CUH_
