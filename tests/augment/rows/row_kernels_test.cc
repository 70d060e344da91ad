#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "augment/resize/bilinear_rows.h"
#include "augment/rows/kernels.h"
#include "base/half.h"

// Every level against a loop that says what a kernel does, for every length about its vectors.

namespace millrace::augment {
namespace {

class EveryLevel : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseRowKernelLevel(GetParam()); }
  void TearDown() override { UseRowKernelLevel(0); }

  uint8_t Byte() { return static_cast<uint8_t>(random_()); }
  // Any bits: subnormals, infinities and NaN too.
  float AnyFloat() { return std::bit_cast<float>(static_cast<uint32_t>(random_())); }
  float Float() { return static_cast<float>(static_cast<int>(random_() % 200'000) - 100'000) / 7; }

  std::mt19937 random_{1};
};

// The same bits.
template <typename T>
bool Same(std::span<const T> a, std::span<const T> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Exact sizes, so that AddressSanitizer sees what is read or written beyond them.
TEST_P(EveryLevel, BlendRows) {
  for (size_t n = 0; n < 70; ++n) {
    std::vector<uint8_t> top(n), bottom(n);
    for (uint8_t& b : top) b = Byte();
    for (uint8_t& b : bottom) b = Byte();
    const std::vector<float> float_top(top.begin(), top.end());
    std::vector<float> float_bottom(n), out(n), float_out(n);
    for (float& f : float_bottom) f = Float();
    const float weight = static_cast<float>(Byte()) / 256;
    BlendRows(top.data(), bottom.data(), weight, static_cast<int64_t>(n), out.data());
    BlendRows(float_top.data(), float_bottom.data(), weight, static_cast<int64_t>(n),
              float_out.data());
    for (size_t i = 0; i < n; ++i) {
      const float a = top[i];
      ASSERT_EQ(out[i], a + (static_cast<float>(bottom[i]) - a) * weight) << n;
      ASSERT_EQ(float_out[i], a + (float_bottom[i] - a) * weight) << n;
    }
  }
}

TEST_P(EveryLevel, BlendColumns3) {
  for (int64_t n = 1; n < 40; ++n) {
    for (int kind = 0; kind < 4; ++kind) {
      const PixelScaling scaling{
          (kind & 1) != 0, (kind & 2) != 0, {0.3f, 0.7f, 1.1f}, {5, 0.1f, -3}};
      const int64_t in = 1 + static_cast<int64_t>(random_() % 30);
      std::vector<float> row(static_cast<size_t>(in * 3 + 1));
      for (float& f : row) f = static_cast<float>(Byte()) / 1.3f;
      const int64_t filled = (n + kTapsPerStep - 1) / kTapsPerStep * kTapsPerStep;
      std::vector<int32_t> lower(filled), upper(filled);
      std::vector<float> weights(4 * filled);
      for (int64_t i = 0; i < n; ++i) {
        lower[i] = 3 * static_cast<int32_t>(random_() % in);
        upper[i] = std::min(lower[i] + 3, static_cast<int32_t>(3 * (in - 1)));
        std::fill_n(weights.begin() + 4 * i, 4, static_cast<float>(Byte()) / 256);
      }
      std::vector<float> out(static_cast<size_t>(3 * n + kRowSlack));
      BlendColumns3(row.data(), {lower.data(), upper.data(), weights.data(), n}, scaling,
                    out.data());
      for (int64_t i = 0; i < 3 * n; ++i) {
        const float left = row[lower[i / 3] + i % 3], right = row[upper[i / 3] + i % 3];
        float value = left + (right - left) * weights[4 * (i / 3)];
        if (scaling.round) value = std::nearbyint(value);
        if (scaling.scale) value = value * scaling.factor[i % 3] - scaling.offset[i % 3];
        ASSERT_EQ(out[i], value) << n << ", kind " << kind << ", value " << i;
      }
    }
  }
}

// Enlarged, shrunk by as much as one window or a wide one reaches, and by more.
TEST_P(EveryLevel, ResizedRowsAreThoseOfTheFormula) {
  for (const int64_t in : {1, 2, 5, 17, 60, 131, 276, 300}) {
    for (const int64_t out : {1, 5, 6, 16, 37, 80, 224}) {
      for (int kind = 0; kind < 8; ++kind) {
        const bool mirrored = (kind & 4) != 0;
        const PixelScaling scaling{
            (kind & 1) != 0, (kind & 2) != 0, {0.3f, 0.7f, 1.1f}, {5, 0.1f, -3}};
        std::vector<uint8_t> row(static_cast<size_t>(in * 3));
        for (uint8_t& b : row) b = Byte();
        RunArena arena;
        BilinearRows rows({1, in, 1, out, 3}, mirrored, arena);
        std::vector<float> resized(static_cast<size_t>(3 * out + kRowSlack));
        rows.Row(row.data(), 3 * in, 0, scaling, resized.data());
        const float ratio = static_cast<float>(in) / static_cast<float>(out);
        for (int64_t i = 0; i < 3 * out; ++i) {
          const int64_t column = mirrored ? out - 1 - i / 3 : i / 3;
          const float position = (static_cast<float>(column) + 0.5f) * ratio - 0.5f;
          const auto first = static_cast<int64_t>(std::floor(position));
          const auto value_at = [&](int64_t at) {
            return static_cast<float>(row[std::clamp<int64_t>(at, 0, in - 1) * 3 + i % 3]);
          };
          const float left = value_at(first);
          float value = left + (value_at(first + 1) - left) * (position - std::floor(position));
          if (scaling.round) value = std::nearbyint(value);
          if (scaling.scale) value = value * scaling.factor[i % 3] - scaling.offset[i % 3];
          ASSERT_EQ(resized[i], value) << in << " to " << out << ", kind " << kind << ", " << i;
        }
      }
    }
  }
}

TEST_P(EveryLevel, RoundToBytes) {
  for (size_t n = 0; n < 70; ++n) {
    std::vector<float> in(n);
    for (float& f : in) f = static_cast<float>(random_() % 1021) / 4;  // halves too
    if (n > 1) in[1] = -1e-5f;
    std::vector<uint8_t> out(n);
    RoundToBytes(in.data(), static_cast<int64_t>(n), out.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], std::nearbyint(in[i])) << in[i];
  }
}

TEST_P(EveryLevel, ScaleRow) {
  for (const int64_t channels : {1, 3, 4}) {
    const int64_t period = 16 * channels;
    std::vector<float> factor(period), offset(period);
    for (int64_t i = 0; i < period; ++i) {
      factor[i] = 0.1f + static_cast<float>(i % channels);
      offset[i] = 3.3f * static_cast<float>(i % channels);
    }
    for (int64_t n = 0; n < 150; ++n) {
      std::vector<uint8_t> bytes(n);
      std::vector<float> floats(n), of_bytes(n), of_floats(n);
      for (uint8_t& b : bytes) b = Byte();
      for (float& f : floats) f = Float();
      ScaleRow(bytes.data(), n, factor.data(), offset.data(), period, of_bytes.data());
      ScaleRow(floats.data(), n, factor.data(), offset.data(), period, of_floats.data());
      for (int64_t i = 0; i < n; ++i) {
        const int64_t c = i % channels;
        ASSERT_EQ(of_bytes[i], static_cast<float>(bytes[i]) * factor[c] - offset[c]);
        ASSERT_EQ(of_floats[i], floats[i] * factor[c] - offset[c]);
      }
    }
  }
}

TEST_P(EveryLevel, HalvesAreThoseOfTheScalarConversion) {
  constexpr size_t kCount = 200'003;
  std::vector<float> in(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const float small = std::ldexp(Float(), static_cast<int>(random_() % 40) - 35);
    in[i] = i % 2 == 0 ? AnyFloat() : small;
  }
  const float edges[] = {0.0f,
                         -0.0f,
                         65504,
                         65519.996f,
                         65520,
                         -65520,
                         0x1p-14f,
                         0x1p-24f,
                         0x1p-25f,
                         0x1p-26f,
                         0x1.8p-25f,
                         std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN(),
                         std::bit_cast<float>(0x7F800001u),
                         std::bit_cast<float>(0x7F7FFFFFu)};
  std::ranges::copy(edges, in.begin());
  std::vector<uint16_t> halves(kCount), bfloats(kCount);
  ToHalfRow(in.data(), kCount, halves.data());
  ToBFloatRow(in.data(), kCount, bfloats.data());
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(halves[i], ToHalf(in[i]).bits) << std::bit_cast<uint32_t>(in[i]);
    ASSERT_EQ(bfloats[i], ToBFloat(in[i]).bits) << std::bit_cast<uint32_t>(in[i]);
  }
  for (int64_t n = 0; n < 20; ++n) {  // lengths
    std::vector<uint16_t> out(n);
    ToHalfRow(in.data(), n, out.data());
    EXPECT_TRUE(Same<uint16_t>(out, std::span(halves).first(n)));
    ToBFloatRow(in.data(), n, out.data());
    EXPECT_TRUE(Same<uint16_t>(out, std::span(bfloats).first(n)));
  }
}

// As one value after the other, each product and the sum rounded by itself.
template <typename T, typename Widen, typename Narrow>
void ExpectMixed(std::vector<T> own, const std::vector<T>& other, float kept, const Widen& widen,
                 const Narrow& narrow) {
  const float others = static_cast<float>(1 - double{kept});
  std::vector<T> expected = own;
  for (size_t i = 0; i < own.size(); ++i) {
    expected[i] = narrow(widen(other[i]) * others + widen(own[i]) * kept);
  }
  MixRow(other.data(), others, kept, static_cast<int64_t>(own.size()), own.data());
  ASSERT_TRUE(Same<T>(own, expected)) << own.size() << " values, kept " << kept;
}

TEST_P(EveryLevel, MixRow) {
  const auto same = [](auto value) { return static_cast<float>(value); };
  const auto float_of = [](auto value) { return ToFloat(value); };
  for (const float kept : {0.0f, 1.0f, 0.5f, 0.25f, 0.1f, 0.7f, 0.99999994f, 1e-7f}) {
    for (size_t n = 0; n < 70; ++n) {
      std::vector<uint8_t> bytes(n), other_bytes(n);
      std::vector<float> floats(n), other_floats(n);
      std::vector<Half> halves(n), other_halves(n);
      std::vector<BFloat> bfloats(n), other_bfloats(n);
      for (size_t i = 0; i < n; ++i) {
        bytes[i] = i % 5 == 0 ? 255 : Byte();
        other_bytes[i] = i % 3 == 0 ? 255 : Byte();
        floats[i] = Float();
        other_floats[i] = Float();
        // Subnormals and infinity too.
        halves[i] = i == 7 ? Half{0x7C00} : Half{static_cast<uint16_t>(random_() % 0x7C00)};
        other_halves[i] = {static_cast<uint16_t>((random_() % 0x7C00) | (random_() & 0x8000))};
        if (i == 7) other_halves[i] = {0x3C00};
        bfloats[i] = ToBFloat(Float());
        other_bfloats[i] = ToBFloat(Float());
      }
      ExpectMixed(bytes, other_bytes, kept, same,
                  [](float v) { return static_cast<uint8_t>(std::nearbyintf(v)); });
      ExpectMixed(floats, other_floats, kept, same, same);
      if (kept > 0) {  // of infinity too
        ExpectMixed(halves, other_halves, kept, float_of, [](float v) { return ToHalf(v); });
      }
      ExpectMixed(bfloats, other_bfloats, kept, float_of, [](float v) { return ToBFloat(v); });
    }
  }
}

// Every pair of bytes whose mean is a half, and every half as it is.
TEST_P(EveryLevel, MixRowRoundsTiesToEvenAndKeepsWhatItKeeps) {
  for (int other = 0; other < 256; ++other) {
    std::vector<uint8_t> own(256), others(256, static_cast<uint8_t>(other));
    for (int i = 0; i < 256; ++i) own[i] = static_cast<uint8_t>(i);
    MixRow(others.data(), 0.5f, 0.5f, 256, own.data());
    for (int i = 0; i < 256; ++i) ASSERT_EQ(own[i], std::nearbyint((i + other) / 2.0));
  }
  std::vector<Half> all(0x10000), zeros(0x10000);
  for (uint32_t i = 0; i < 0x10000; ++i) all[i] = {static_cast<uint16_t>(i)};
  MixRow(zeros.data(), 0, 1, 0x10000, all.data());
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const bool is_nan = (i & 0x7FFF) > 0x7C00;
    const uint32_t want = i == 0x8000 ? 0 : i;  // 0 + -0
    if (is_nan) {
      ASSERT_EQ(all[i].bits & 0x7FFF, 0x7E00) << i;
    } else {
      ASSERT_EQ(all[i].bits, want) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryLevel, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& test) { return RowKernelLevelName(test.param); });

}  // namespace
}  // namespace millrace::augment
