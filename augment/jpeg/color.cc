#include "augment/jpeg/color.h"

#include <algorithm>
#include <array>
#include <cstring>

// Each kernel's scalar form is its definition. The colour conversion is libjpeg's: 16-bit fixed
// point factors, rounded; the vector form takes the whole multiples out of a factor so that the
// rest fits a 16-bit product, which changes no bit.

namespace millrace::augment::jpeg {
namespace {

constexpr int kRedCr = 91881;     // 1.402
constexpr int kGreenCb = -22554;  // -0.34414
constexpr int kGreenCr = -46802;  // -0.71414
constexpr int kBlueCb = 116130;   // 1.772
constexpr int kHalf = 32768;

uint8_t Clamp(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

#if MILLRACE_JPEG_X86

MILLRACE_TARGET_AVX2 inline __m256i Load(const uint8_t* in) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}

MILLRACE_TARGET_AVX2 inline __m256i Triple(__m256i a) {
  return _mm256_add_epi16(a, _mm256_add_epi16(a, a));
}

// (3 * a + b + bias) >> shift
template <int kShift>
MILLRACE_TARGET_AVX2 inline __m256i Blend(__m256i tripled, __m256i b, int16_t bias) {
  const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(tripled, b), _mm256_set1_epi16(bias));
  return _mm256_srli_epi16(sum, kShift);
}

MILLRACE_TARGET_AVX2 inline void StoreAlternately(__m256i even, __m256i odd, uint8_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

MILLRACE_TARGET_AVX2 inline __m128i Narrow(__m256i a) {
  return _mm_packus_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}

MILLRACE_TARGET_AVX2 void UpsampleAcrossAvx2(const uint8_t* in, int width, uint8_t* out) {
  for (int x = 0; x < width; x += 16) {
    const __m256i tripled = Triple(Load(in + x));
    StoreAlternately(Blend<2>(tripled, Load(in + x - 1), 1), Blend<2>(tripled, Load(in + x + 1), 2),
                     out + 2 * x);
  }
}

MILLRACE_TARGET_AVX2 void UpsampleDownAvx2(const uint8_t* near, const uint8_t* far, int width,
                                           int16_t bias, uint8_t* out) {
  for (int x = 0; x < width; x += 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x),
                     Narrow(Blend<2>(Triple(Load(near + x)), Load(far + x), bias)));
  }
}

MILLRACE_TARGET_AVX2 inline __m256i ColumnSum(const uint8_t* near, const uint8_t* far) {
  return _mm256_add_epi16(Triple(Load(near)), Load(far));
}

MILLRACE_TARGET_AVX2 void UpsampleBothAvx2(const uint8_t* near, const uint8_t* far, int width,
                                           uint8_t* out) {
  for (int x = 0; x < width; x += 16) {
    const __m256i tripled = Triple(ColumnSum(near + x, far + x));
    StoreAlternately(Blend<4>(tripled, ColumnSum(near + x - 1, far + x - 1), 8),
                     Blend<4>(tripled, ColumnSum(near + x + 1, far + x + 1), 7), out + 2 * x);
  }
}

// x * factor / 65536 rounded, of a factor below 1/2 in 16 bits.
MILLRACE_TARGET_AVX2 inline __m256i Scale(__m256i x, int factor) {
  const __m256i product =
      _mm256_mulhi_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16(static_cast<int16_t>(factor)));
  return _mm256_srai_epi16(_mm256_add_epi16(product, _mm256_set1_epi16(1)), 1);
}

MILLRACE_TARGET_AVX2 inline __m256i GreenOf(__m256i cb, __m256i cr) {
  const __m256i factors = _mm256_set1_epi32(((kGreenCr + 65536) << 16) | (kGreenCb & 0xFFFF));
  const __m256i half = _mm256_set1_epi32(kHalf);
  const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
  const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
  const __m256i sum = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                         _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
  return _mm256_sub_epi16(sum, cr);
}

// 16 pixels, 48 bytes.
MILLRACE_TARGET_AVX2 inline void StoreRgb(__m128i r, __m128i g, __m128i b, uint8_t* out) {
  const auto pick = [](__m128i v, const int8_t* order) __attribute__((target("avx2"))) {
    return _mm_shuffle_epi8(v, _mm_load_si128(reinterpret_cast<const __m128i*>(order)));
  };
  alignas(16) static constexpr int8_t kOrder[3][3][16] = {
      {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
       {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
       {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
      {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
       {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
       {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
      {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
       {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
       {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}}};
  for (int i = 0; i < 3; ++i) {
    const __m128i part = _mm_or_si128(_mm_or_si128(pick(r, kOrder[i][0]), pick(g, kOrder[i][1])),
                                      pick(b, kOrder[i][2]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i), part);
  }
}

MILLRACE_TARGET_AVX2 inline void Convert16(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
                                           uint8_t* out) {
  const __m256i center = _mm256_set1_epi16(128);
  const __m256i luma = Load(y);
  const __m256i blue = _mm256_sub_epi16(Load(cb), center);
  const __m256i red = _mm256_sub_epi16(Load(cr), center);
  const __m256i r = _mm256_add_epi16(_mm256_add_epi16(luma, red), Scale(red, kRedCr - 65536));
  const __m256i b = _mm256_add_epi16(_mm256_add_epi16(luma, _mm256_add_epi16(blue, blue)),
                                     Scale(blue, kBlueCb - 2 * 65536));
  const __m256i g = _mm256_add_epi16(luma, GreenOf(blue, red));
  StoreRgb(Narrow(r), Narrow(g), Narrow(b), out);
}

MILLRACE_TARGET_AVX2 void YccToRgbAvx2(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
                                       int width, uint8_t* rgb) {
  int x = 0;
  for (; x + 16 <= width; x += 16) Convert16(y + x, cb + x, cr + x, rgb + 3 * x);
  if (x == width) return;
  uint8_t rest[48];
  Convert16(y + x, cb + x, cr + x, rest);
  std::memcpy(rgb + 3 * x, rest, static_cast<size_t>(3 * (width - x)));
}

MILLRACE_TARGET_AVX512 inline __m512i Load512(const uint8_t* in) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
}

MILLRACE_TARGET_AVX512 inline __m512i Scale512(__m512i x, int factor) {
  const __m512i product =
      _mm512_mulhi_epi16(_mm512_add_epi16(x, x), _mm512_set1_epi16(static_cast<int16_t>(factor)));
  return _mm512_srai_epi16(_mm512_add_epi16(product, _mm512_set1_epi16(1)), 1);
}

MILLRACE_TARGET_AVX512 inline __m512i GreenOf512(__m512i cb, __m512i cr) {
  const __m512i factors = _mm512_set1_epi32(((kGreenCr + 65536) << 16) | (kGreenCb & 0xFFFF));
  const __m512i half = _mm512_set1_epi32(kHalf);
  const __m512i low = _mm512_madd_epi16(_mm512_unpacklo_epi16(cb, cr), factors);
  const __m512i high = _mm512_madd_epi16(_mm512_unpackhi_epi16(cb, cr), factors);
  const __m512i sum = _mm512_packs_epi32(_mm512_srai_epi32(_mm512_add_epi32(low, half), 16),
                                         _mm512_srai_epi32(_mm512_add_epi32(high, half), 16));
  return _mm512_sub_epi16(sum, cr);
}

// Where each byte of 32 pixels lies in red and green, then blue, as 16-bit numbers are packed:
// eight of the first, eight of the second, and so on. From 64 on it is the second register.
constexpr std::array<uint8_t, 128> MakeRgbOrder() {
  std::array<uint8_t, 128> order{};
  for (int i = 0; i < 96; ++i) {
    const int x = i / 3, place = x / 8 * 16 + x % 8;
    order[i] = static_cast<uint8_t>(i % 3 == 0 ? place : i % 3 == 1 ? place + 8 : 64 + place);
  }
  return order;
}

MILLRACE_TARGET_AVX512 void YccToRgbAvx512(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
                                           int width, uint8_t* rgb) {
  alignas(64) static constexpr std::array<uint8_t, 128> kOrder = MakeRgbOrder();
  const __m512i center = _mm512_set1_epi16(128);
  const __m512i first = _mm512_load_si512(kOrder.data());
  const __m512i second = _mm512_load_si512(kOrder.data() + 64);
  for (int x = 0; x < width; x += 32) {
    const __m512i luma = Load512(y + x);
    const __m512i blue = _mm512_sub_epi16(Load512(cb + x), center);
    const __m512i red = _mm512_sub_epi16(Load512(cr + x), center);
    const __m512i r = _mm512_add_epi16(_mm512_add_epi16(luma, red), Scale512(red, kRedCr - 65536));
    const __m512i b = _mm512_add_epi16(_mm512_add_epi16(luma, _mm512_add_epi16(blue, blue)),
                                       Scale512(blue, kBlueCb - 2 * 65536));
    const __m512i g = _mm512_add_epi16(luma, GreenOf512(blue, red));
    const __m512i rg = _mm512_packus_epi16(r, g), bb = _mm512_packus_epi16(b, b);
    const auto bytes = static_cast<unsigned>(std::min(3 * (width - x), 96));
    const auto upper = static_cast<__mmask32>(_bzhi_u64(~uint64_t{0}, std::max(bytes, 64u) - 64));
    _mm512_mask_storeu_epi8(rgb + 3 * x, _bzhi_u64(~uint64_t{0}, bytes),
                            _mm512_permutex2var_epi8(rg, first, bb));
    _mm256_mask_storeu_epi8(rgb + 3 * x + 64, upper,
                            _mm512_castsi512_si256(_mm512_permutex2var_epi8(rg, second, bb)));
  }
}

#endif  // MILLRACE_JPEG_X86

}  // namespace

void UpsampleAcross(const uint8_t* in, int width, uint8_t* out, [[maybe_unused]] Level level) {
#if MILLRACE_JPEG_X86
  if (level >= Level::kAvx2) return UpsampleAcrossAvx2(in, width, out);
#endif
  for (int x = 0; x < width; ++x) {
    out[2 * x] = static_cast<uint8_t>((3 * in[x] + in[x - 1] + 1) >> 2);
    out[2 * x + 1] = static_cast<uint8_t>((3 * in[x] + in[x + 1] + 2) >> 2);
  }
}

void UpsampleDown(const uint8_t* near, const uint8_t* far, int width, bool upper, uint8_t* out,
                  [[maybe_unused]] Level level) {
  const int bias = upper ? 1 : 2;
#if MILLRACE_JPEG_X86
  if (level >= Level::kAvx2) {
    return UpsampleDownAvx2(near, far, width, static_cast<int16_t>(bias), out);
  }
#endif
  for (int x = 0; x < width; ++x) {
    out[x] = static_cast<uint8_t>((3 * near[x] + far[x] + bias) >> 2);
  }
}

void UpsampleBoth(const uint8_t* near, const uint8_t* far, int width, uint8_t* out,
                  [[maybe_unused]] Level level) {
#if MILLRACE_JPEG_X86
  if (level >= Level::kAvx2) return UpsampleBothAvx2(near, far, width, out);
#endif
  const auto sum = [&](int x) { return 3 * near[x] + far[x]; };
  for (int x = 0; x < width; ++x) {
    out[2 * x] = static_cast<uint8_t>((3 * sum(x) + sum(x - 1) + 8) >> 4);
    out[2 * x + 1] = static_cast<uint8_t>((3 * sum(x) + sum(x + 1) + 7) >> 4);
  }
}

void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* rgb,
              [[maybe_unused]] Level level) {
#if MILLRACE_JPEG_X86
  if (level == Level::kAvx512) return YccToRgbAvx512(y, cb, cr, width, rgb);
  if (level == Level::kAvx2) return YccToRgbAvx2(y, cb, cr, width, rgb);
#endif
  for (int x = 0; x < width; ++x) {
    const int blue = cb[x] - 128, red = cr[x] - 128;
    rgb[3 * x] = Clamp(y[x] + ((kRedCr * red + kHalf) >> 16));
    rgb[3 * x + 1] = Clamp(y[x] + ((kGreenCb * blue + kGreenCr * red + kHalf) >> 16));
    rgb[3 * x + 2] = Clamp(y[x] + ((kBlueCb * blue + kHalf) >> 16));
  }
}

void GreyToRgb(const uint8_t* y, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x) rgb[3 * x] = rgb[3 * x + 1] = rgb[3 * x + 2] = y[x];
}

}  // namespace millrace::augment::jpeg
