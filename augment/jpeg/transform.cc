#include <algorithm>

#include "augment/jpeg/transform_internal.h"

#if MILLRACE_JPEG_X86
#include <immintrin.h>
#endif

// The inverse transform of Loeffler, Ligtenberg and Moschytz with 13-bit constants, its products
// paired so that each is one multiply-add of 16-bit numbers, as libjpeg-turbo pairs them. Sums of
// two samples wrap at 16 bits, sums of products at 32, and both passes saturate to 16 bits: what
// damaged files make of that is part of the result.

namespace millrace::augment::jpeg {
namespace {

constexpr int kConstBits = 13;
constexpr int kPass1Bits = 2;
constexpr int kShift1 = kConstBits - kPass1Bits;
constexpr int kShift2 = kConstBits + kPass1Bits + 3;

constexpr int k0298 = 2446, k0390 = 3196, k0541 = 4433, k0765 = 6270, k0899 = 7373, k1175 = 9633,
              k1501 = 12299, k1847 = 15137, k1961 = 16069, k2053 = 16819, k2562 = 20995,
              k3072 = 25172;

constexpr int16_t Wrap(int value) { return static_cast<int16_t>(value); }

// a * x + b * y, wrapping at 32 bits.
constexpr uint32_t Madd(int16_t x, int16_t y, int a, int b) {
  return static_cast<uint32_t>(x * a) + static_cast<uint32_t>(y * b);
}

// One dimension of eight samples, `step` apart.
template <int kShift>
void Pass(int16_t* v, int step) {
  const auto at = [&](int i) -> int16_t& { return v[i * step]; };
  const uint32_t even3 = Madd(at(2), at(6), k0541 + k0765, k0541);
  const uint32_t even2 = Madd(at(2), at(6), k0541, k0541 - k1847);
  const auto even0 = static_cast<uint32_t>(Wrap(at(0) + at(4)) * (1 << kConstBits));
  const auto even1 = static_cast<uint32_t>(Wrap(at(0) - at(4)) * (1 << kConstBits));
  const uint32_t even[4] = {even0 + even3, even1 + even2, even1 - even2, even0 - even3};
  const int16_t z3 = Wrap(at(7) + at(3)), z4 = Wrap(at(5) + at(1));
  const uint32_t y3 = Madd(z3, z4, k1175 - k1961, k1175);
  const uint32_t y4 = Madd(z3, z4, k1175, k1175 - k0390);
  const uint32_t odd[4] = {Madd(at(7), at(1), -k0899, k1501 - k0899) + y4,
                           Madd(at(5), at(3), -k2562, k3072 - k2562) + y3,
                           Madd(at(5), at(3), k2053 - k2562, -k2562) + y4,
                           Madd(at(7), at(1), k0298 - k0899, -k0899) + y3};
  const auto descale = [](uint32_t sum) {
    const int32_t value = static_cast<int32_t>(sum + (1u << (kShift - 1))) >> kShift;
    return static_cast<int16_t>(std::clamp(value, -32768, 32767));
  };
  for (int i = 0; i < 4; ++i) {
    at(i) = descale(even[i] + odd[i]);
    at(7 - i) = descale(even[i] - odd[i]);
  }
}

bool TransformScalar(const int16_t* coefficients, const int16_t* quant, uint8_t* out,
                     ptrdiff_t stride) {
  int16_t v[kBlockSize];
  for (int i = 0; i < kBlockSize; ++i) v[i] = Wrap(coefficients[i] * quant[i]);
  const bool in_range = std::all_of(v, v + 8, [](int16_t x) { return x >= -8192 && x <= 8191; });
  for (int x = 0; x < 8; ++x) Pass<kShift1>(v + x, 8);
  for (int y = 0; y < 8; ++y) {
    Pass<kShift2>(v + 8 * y, 1);
    for (int x = 0; x < 8; ++x) {
      out[y * stride + x] = static_cast<uint8_t>(std::clamp<int>(v[8 * y + x], -128, 127) + 128);
    }
  }
  return in_range;
}

#if MILLRACE_JPEG_X86

// Two blocks at once, one in each half of a register.
MILLRACE_TARGET_AVX2 inline __m256i Pair(int low, int high) {
  return _mm256_set1_epi32((high << 16) | (low & 0xFFFF));
}

template <int kShift>
MILLRACE_TARGET_AVX2 inline __m256i Descale(__m256i low, __m256i high) {
  return _mm256_packs_epi32(_mm256_srai_epi32(low, kShift), _mm256_srai_epi32(high, kShift));
}

struct Wide {
  __m256i low, high;
};

MILLRACE_TARGET_AVX2 inline Wide Madd(Wide pairs, __m256i factors) {
  return {_mm256_madd_epi16(pairs.low, factors), _mm256_madd_epi16(pairs.high, factors)};
}

MILLRACE_TARGET_AVX2 inline Wide Unpack(__m256i a, __m256i b) {
  return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}

MILLRACE_TARGET_AVX2 inline Wide Add(Wide a, Wide b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

MILLRACE_TARGET_AVX2 inline Wide Subtract(Wide a, Wide b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

// a << kConstBits, and half of what Descale rounds to.
template <int kShift>
MILLRACE_TARGET_AVX2 inline Wide Scale(__m256i a) {
  const Wide top = Unpack(_mm256_setzero_si256(), a);
  const __m256i round = _mm256_set1_epi32(1 << (kShift - 1));
  return {_mm256_add_epi32(_mm256_srai_epi32(top.low, 16 - kConstBits), round),
          _mm256_add_epi32(_mm256_srai_epi32(top.high, 16 - kConstBits), round)};
}

template <int kShift>
MILLRACE_TARGET_AVX2 inline void Butterfly(Wide even, Wide odd, __m256i* first, __m256i* second) {
  const Wide sum = Add(even, odd), difference = Subtract(even, odd);
  *first = Descale<kShift>(sum.low, sum.high);
  *second = Descale<kShift>(difference.low, difference.high);
}

// One dimension; v[i] are the i-th of eight samples of 2 x 8 rows or columns.
template <int kShift>
MILLRACE_TARGET_AVX2 inline void PassAvx2(__m256i* v) {
  const Wide v26 = Unpack(v[2], v[6]);
  const Wide even3 = Madd(v26, Pair(k0541 + k0765, k0541));
  const Wide even2 = Madd(v26, Pair(k0541, k0541 - k1847));
  const Wide even0 = Scale<kShift>(_mm256_add_epi16(v[0], v[4]));
  const Wide even1 = Scale<kShift>(_mm256_sub_epi16(v[0], v[4]));
  const Wide z = Unpack(_mm256_add_epi16(v[7], v[3]), _mm256_add_epi16(v[5], v[1]));
  const Wide y3 = Madd(z, Pair(k1175 - k1961, k1175));
  const Wide y4 = Madd(z, Pair(k1175, k1175 - k0390));
  const Wide v71 = Unpack(v[7], v[1]), v53 = Unpack(v[5], v[3]);
  const Wide odd0 = Add(Madd(v71, Pair(-k0899, k1501 - k0899)), y4);
  const Wide odd1 = Add(Madd(v53, Pair(-k2562, k3072 - k2562)), y3);
  const Wide odd2 = Add(Madd(v53, Pair(k2053 - k2562, -k2562)), y4);
  const Wide odd3 = Add(Madd(v71, Pair(k0298 - k0899, -k0899)), y3);
  Butterfly<kShift>(Add(even0, even3), odd0, &v[0], &v[7]);
  Butterfly<kShift>(Add(even1, even2), odd1, &v[1], &v[6]);
  Butterfly<kShift>(Subtract(even1, even2), odd2, &v[2], &v[5]);
  Butterfly<kShift>(Subtract(even0, even3), odd3, &v[3], &v[4]);
}

MILLRACE_TARGET_AVX2 inline void Transpose(__m256i* v) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      b[4 * i + 2 * j] = _mm256_unpacklo_epi32(a[4 * i + j], a[4 * i + 2 + j]);
      b[4 * i + 2 * j + 1] = _mm256_unpackhi_epi32(a[4 * i + j], a[4 * i + 2 + j]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = _mm256_unpacklo_epi64(b[i], b[4 + i]);
    v[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[4 + i]);
  }
}

// Two blocks of one coefficient each: what the passes make of it is that everywhere, rounded.
MILLRACE_TARGET_AVX2 bool FillPair(int16_t first, int16_t second, int16_t quant, uint8_t* out,
                                   ptrdiff_t stride) {
  const int16_t low = Wrap(first * quant), high = Wrap(second * quant);
  const auto sample = [](int16_t dc) {
    return static_cast<char>(std::clamp((dc + 4) >> 3, -128, 127) + 128);
  };
  const __m128i row = _mm_unpacklo_epi64(_mm_set1_epi8(sample(low)), _mm_set1_epi8(sample(high)));
  for (int y = 0; y < 8; ++y) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + y * stride), row);
  }
  return low >= -8192 && low <= 8191 && high >= -8192 && high <= 8191;
}

MILLRACE_TARGET_AVX2 bool TransformPair(const int16_t* first, const int16_t* second,
                                        const int16_t* quant, uint8_t* out, ptrdiff_t stride) {
  __m256i v[8];
  for (int i = 0; i < 8; ++i) {
    const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(first) + i);
    const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(second) + i);
    v[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  }
  __m256i ac = _mm256_and_si256(v[0], _mm256_setr_epi32(-65536, -1, -1, -1, -65536, -1, -1, -1));
  for (int i = 1; i < 8; ++i) ac = _mm256_or_si256(ac, v[i]);
  if (_mm256_testz_si256(ac, ac) != 0) {
    return FillPair(first[0], second[0], quant[0], out, stride);
  }
  for (int i = 0; i < 8; ++i) {
    const __m128i row = _mm_load_si128(reinterpret_cast<const __m128i*>(quant) + i);
    v[i] = _mm256_mullo_epi16(v[i], _mm256_broadcastsi128_si256(row));
  }
  const __m256i shifted = _mm256_add_epi16(v[0], _mm256_set1_epi16(8192));
  const bool in_range = _mm256_testz_si256(shifted, _mm256_set1_epi16(-16384)) != 0;
  PassAvx2<kShift1>(v);
  Transpose(v);
  PassAvx2<kShift2>(v);
  Transpose(v);
  const __m256i center = _mm256_set1_epi8(-128);
  for (int i = 0; i < 4; ++i) {
    const __m256i rows = _mm256_add_epi8(_mm256_packs_epi16(v[2 * i], v[2 * i + 1]), center);
    const __m256i ordered = _mm256_permute4x64_epi64(rows, 0xD8);
    auto* upper = reinterpret_cast<__m128i*>(out + 2 * i * stride);
    auto* lower = reinterpret_cast<__m128i*>(out + (2 * i + 1) * stride);
    _mm_storeu_si128(upper, _mm256_castsi256_si128(ordered));
    _mm_storeu_si128(lower, _mm256_extracti128_si256(ordered, 1));
  }
  return in_range;
}

#endif  // MILLRACE_JPEG_X86

}  // namespace

bool InverseTransform(const BlockRow& row, const std::array<uint16_t, kBlockSize>& quant,
                      uint8_t* out, ptrdiff_t stride, [[maybe_unused]] Level level) {
  alignas(32) int16_t factors[kBlockSize];
  for (int i = 0; i < kBlockSize; ++i) factors[i] = static_cast<int16_t>(quant[i]);
  const auto block = [&](int i) {
    const int at = i / row.group * row.group_stride + i % row.group;
    return row.blocks[at].coefficients;
  };
  bool in_range = true;
#if MILLRACE_JPEG_X86
  if (level == Level::kAvx2) {
    for (int i = 0; i < row.num_blocks; i += 2) {
      const int16_t* second = block(i + 1 < row.num_blocks ? i + 1 : i);
      in_range &= TransformPair(block(i), second, factors, out + 8 * i, stride);
    }
    return in_range;
  }
#endif
  for (int i = 0; i < row.num_blocks; ++i) {
    in_range &= TransformScalar(block(i), factors, out + 8 * i, stride);
  }
  return in_range;
}

}  // namespace millrace::augment::jpeg
