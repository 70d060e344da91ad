#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "augment/bilinear_rows_internal.h"
#include "augment/row_kernels_internal.h"
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

template <typename T>
void ExpectSplit(std::mt19937& random) {
  for (int64_t n = 0; n < 200; ++n) {
    std::vector<T> in(3 * n), out(3 * n);
    for (T& value : in) value = static_cast<T>(random() % 250);
    SplitRow3(in.data(), n, n, out.data());
    for (int64_t i = 0; i < 3 * n; ++i) ASSERT_EQ(out[i], in[i % n * 3 + i / n]) << n;
  }
}

TEST_P(EveryLevel, SplitRow3) {
  ExpectSplit<uint8_t>(random_);
  ExpectSplit<uint16_t>(random_);
  ExpectSplit<float>(random_);
}

TEST_P(EveryLevel, StreamRowCopiesAlignedOrNot) {
  alignas(64) uint8_t out[512];
  std::vector<uint8_t> in(256);
  for (uint8_t& b : in) b = Byte();
  for (const size_t offset : {size_t{0}, size_t{4}, size_t{32}, size_t{64}}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{96}, size_t{256}}) {
      std::memset(out, 7, sizeof out);
      StreamRow(in.data(), bytes, out + offset);
      EndStreaming();
      EXPECT_EQ(std::memcmp(out + offset, in.data(), bytes), 0);
      EXPECT_EQ(out[offset + bytes], 7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryLevel, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& test) { return RowKernelLevelName(test.param); });

}  // namespace
}  // namespace millrace::augment
