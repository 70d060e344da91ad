#include "augment/jpeg/transform.h"

#include <algorithm>

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
namespace avx2 {
#define MILLRACE_VECTOR __m256i
#define MILLRACE_VECTOR_TARGET MILLRACE_TARGET_AVX2
#define MM(name) _mm256_##name
#include "augment/jpeg/transform-inl.h"
}  // namespace avx2

// Fills two blocks of one coefficient each: the passes make one rounded value of it everywhere.
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
  avx2::Pass<kShift1>(v);
  avx2::Transpose(v);
  avx2::Pass<kShift2>(v);
  avx2::Transpose(v);
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

MILLRACE_TARGET_AVX2 void ClearAvx2(Block* blocks, int count) {
  const __m256i zero = _mm256_setzero_si256();
  for (int i = 0; i < count; ++i) {
    auto* out = reinterpret_cast<__m256i*>(blocks[i].coefficients);
    for (int j = 0; j < 4; ++j) _mm256_storeu_si256(out + j, zero);
  }
}

// Four blocks at once, one in each quarter of a register.
namespace avx512 {
#define MILLRACE_VECTOR __m512i
#define MILLRACE_VECTOR_TARGET MILLRACE_TARGET_AVX512
#define MM(name) _mm512_##name
#include "augment/jpeg/transform-inl.h"
}  // namespace avx512

// Four registers of four rows of a block each become four of one row of each block.
MILLRACE_TARGET_AVX512 inline void GatherRows(__m512i* v) {
  const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44);
  const __m512i b = _mm512_shuffle_i32x4(v[0], v[1], 0xEE);
  const __m512i c = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
  const __m512i d = _mm512_shuffle_i32x4(v[2], v[3], 0xEE);
  v[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  v[1] = _mm512_shuffle_i32x4(a, c, 0xDD);
  v[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  v[3] = _mm512_shuffle_i32x4(b, d, 0xDD);
}

MILLRACE_TARGET_AVX512 bool TransformFour(const int16_t* const* blocks, const int16_t* quant,
                                          uint8_t* out, ptrdiff_t stride) {
  __m512i v[8];
  for (int half = 0; half < 2; ++half) {
    const __m512i factors = _mm512_loadu_si512(quant + 32 * half);
    for (int i = 0; i < 4; ++i) {
      v[4 * half + i] = _mm512_mullo_epi16(_mm512_loadu_si512(blocks[i] + 32 * half), factors);
    }
    GatherRows(v + 4 * half);
  }
  const __m512i shifted = _mm512_add_epi16(v[0], _mm512_set1_epi16(8192));
  const bool in_range = _mm512_test_epi16_mask(shifted, _mm512_set1_epi16(-16384)) == 0;
  avx512::Pass<kShift1>(v);
  avx512::Transpose(v);
  avx512::Pass<kShift2>(v);
  avx512::Transpose(v);
  const __m512i center = _mm512_set1_epi8(-128);
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  for (int i = 0; i < 4; ++i) {
    const __m512i rows = _mm512_add_epi8(_mm512_packs_epi16(v[2 * i], v[2 * i + 1]), center);
    const __m512i ordered = _mm512_permutexvar_epi64(order, rows);
    auto* upper = reinterpret_cast<__m256i*>(out + 2 * i * stride);
    auto* lower = reinterpret_cast<__m256i*>(out + (2 * i + 1) * stride);
    _mm256_storeu_si256(upper, _mm512_castsi512_si256(ordered));
    _mm256_storeu_si256(lower, _mm512_extracti64x4_epi64(ordered, 1));
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
    const int at = (i >> (row.group - 1)) * row.group_stride + (i & (row.group - 1));
    return row.blocks[at].coefficients;
  };
  bool in_range = true;
#if MILLRACE_JPEG_X86
  if (level == Level::kAvx512) {
    for (int i = 0; i < row.num_blocks; i += 4) {
      const int16_t* blocks[4];
      for (int j = 0; j < 4; ++j) blocks[j] = block(std::min(i + j, row.num_blocks - 1));
      in_range &= TransformFour(blocks, factors, out + 8 * i, stride);
    }
    return in_range;
  }
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

// g++ makes a string instruction of a memset of this size: 7 % of all time instead of 1.4.
void ClearBlocks(Block* blocks, int count, [[maybe_unused]] Level level) {
#if MILLRACE_JPEG_X86
  if (level >= Level::kAvx2) return ClearAvx2(blocks, count);
#endif
  for (int i = 0; i < count; ++i) std::fill_n(blocks[i].coefficients, kBlockSize, int16_t{0});
}

}  // namespace millrace::augment::jpeg
