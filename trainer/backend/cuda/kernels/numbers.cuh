#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_NUMBERS_CUH_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_NUMBERS_CUH_

#include <bit>
#include <cstdint>

#include "trainer/backend/cuda/kernels/launch.h"

// Functions whose bits are the same in all builds, as those of the libraries are not. Errors are at
// most a few units of the last place. A NaN gives a NaN.

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

// The number with these bits, and the other way round.
#if defined(__CUDACC__)
__device__ inline float FloatOf(int32_t bits) { return __int_as_float(bits); }
__device__ inline double DoubleOf(int64_t bits) { return __longlong_as_double(bits); }
__device__ inline int64_t BitsOf(double value) { return __double_as_longlong(value); }
#else
inline float FloatOf(int32_t bits) { return std::bit_cast<float>(bits); }
inline double DoubleOf(int64_t bits) { return std::bit_cast<double>(bits); }
inline int64_t BitsOf(double value) { return std::bit_cast<int64_t>(value); }
#endif

// 2^n. REQUIRES: it is a normal number.
__device__ inline float PowerOf2(int32_t n, float) { return FloatOf((n + 127) << 23); }
__device__ inline double PowerOf2(int64_t n, double) { return DoubleOf((n + 1023) << 52); }

// The logarithm of 2 in two parts: products of the first with a number of a few bits are exact.
constexpr float kLog2High = 0x1.62e4p-1f;
constexpr float kLog2Low = 0x1.7f7d1cp-20f;
constexpr double kLog2HighDouble = 0x1.62e42feep-1;
constexpr double kLog2LowDouble = 0x1.a39ef35793c76p-33;

// e^x = 2^n e^r with |r| <= log(2) / 2, and e^r by its series: the first term that is left out is
// below 2^-27 for float, and 2^-57 for double. Added to a number and taken from the sum, the
// constants 1.5 * 2^23 and 1.5 * 2^52 round it to an integer.
__device__ inline float Exp(float x) {
  if (x != x) return x;
  if (x > 88.8f) return FloatOf(0x7F800000);
  if (x < -104.0f) return 0;
  const float n = (x * 0x1.715476p0f + 0x1.8p23f) - 0x1.8p23f;
  const float r = (x - n * kLog2High) - n * kLog2Low;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 1.0f / 2;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const auto whole = static_cast<int32_t>(n);
  const int32_t half = whole / 2;
  return sum * PowerOf2(half, x) * PowerOf2(whole - half, x);
}

__device__ inline double Exp(double x) {
  if (x != x) return x;
  if (x > 709.8) return DoubleOf(int64_t{0x7FF} << 52);
  if (x < -745.2) return 0;
  const double n = (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;
  const double r = (x - n * kLog2HighDouble) - n * kLog2LowDouble;
  double sum = 1.0;  // of the series, from its last term: 1 + r / k * (the sum so far)
  MILLRACE_UNROLL
  for (int k = 13; k > 0; --k) sum = 1.0 + r * sum * (1.0 / k);
  const auto whole = static_cast<int64_t>(n);
  const int64_t half = whole / 2;
  return sum * PowerOf2(half, x) * PowerOf2(whole - half, x);
}

// log(2^e m) with m within a factor sqrt(2) of 1, and log(m) = 2 artanh(s) by its series, where
// s = (m - 1) / (m + 1): the first term that is left out is below 2^-60 of the sum.
// REQUIRES: x is a normal positive number, infinite or a NaN.
__device__ inline double Log(double x) {
  if (x != x) return x;
  const int64_t bits = BitsOf(x);
  int64_t exponent = (bits >> 52) - 1023;
  if (exponent > 1023) return x;
  double m = DoubleOf(bits - (exponent << 52));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  MILLRACE_UNROLL
  for (int k = 23; k > 1; k -= 2) sum = sum * square + 1.0 / k;
  const auto e = static_cast<double>(exponent);
  return e * kLog2HighDouble + (2 * s + (2 * s * square * sum + e * kLog2LowDouble));
}

// log(1 + u). The quotient makes up for what 1 + u lost of u. REQUIRES: 0 <= u <= 1, or a NaN.
__device__ inline double LogOf1Plus(double u) {
  const double sum = 1 + u;
  return sum == 1 ? u : Log(sum) * (u / (sum - 1));
}

__device__ inline float Sigmoid(float x) { return 1 / (1 + Exp(-x)); }

// Near 0 by a quotient of polynomials (its continued fraction), which is off by less than 2^-29.
__device__ inline float Tanh(float x) {
  const float size = x < 0 ? -x : x;
  if (size < 0.625f) {
    const float square = x * x;
    return x * (945 + square * (105 + square)) / (945 + square * (420 + 15 * square));
  }
  const float value = 1 - 2 / (Exp(2 * size) + 1);
  return x < 0 ? -value : value;
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_NUMBERS_CUH_
