#ifndef MILLRACE_BASE_HALF_H_
#define MILLRACE_BASE_HALF_H_

#include <bit>
#include <cstdint>

namespace millrace {

// Elements of DType::kF16 (IEEE 754 binary16) and DType::kBF16 (the upper half of a float), which
// C++20 has no types for. To float is exact; from float rounds to nearest, ties to even.
struct Half {
  uint16_t bits = 0;
};
struct BFloat {
  uint16_t bits = 0;
};

inline float ToFloat(BFloat value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

inline float ToFloat(Half value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1F;
  const uint32_t mantissa = value.bits & 0x3FF;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

inline BFloat ToBFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // A NaN whose payload is in the lower half only would become an infinity.
  if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

inline Half ToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t half = 0;
  if (magnitude > 0x7F800000) {
    half = 0x7E00;
  } else if (magnitude >= 0x477FF000) {  // 65520, half way to the next power: infinity
    half = 0x7C00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: the sum's unit is the subnormal's, 2^-24
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

}  // namespace millrace

#endif  // MILLRACE_BASE_HALF_H_
