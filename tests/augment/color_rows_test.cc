#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "augment/color_rows_internal.h"
#include "augment/row_kernels_internal.h"

// Every level against a loop that says what a kernel does, for every length about its vectors.

namespace millrace::augment {
namespace {

class EveryColorLevel : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseRowKernelLevel(GetParam()); }
  void TearDown() override { UseRowKernelLevel(0); }

  std::vector<uint8_t> Bytes(int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }

  std::mt19937 random_{1};
};

uint8_t Cut(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

int Grey(const uint8_t* pixel) {
  const float red = 0.2989f * static_cast<float>(pixel[0]);
  const float green = 0.587f * static_cast<float>(pixel[1]);
  const float blue = 0.114f * static_cast<float>(pixel[2]);
  return static_cast<int>(red + green + blue);
}

TEST_P(EveryColorLevel, GreysAndSaturation) {
  for (int64_t pixels = 0; pixels < 80; ++pixels) {
    const std::vector<uint8_t> in = Bytes(3 * pixels);
    const float factor = static_cast<float>(random_() % 40) / 13;
    std::vector<uint8_t> out(in.size());
    SaturateRow3(in.data(), pixels, factor, 1 - factor, out.data());
    int64_t sum = 0;
    for (int64_t i = 0; i < 3 * pixels; ++i) {
      const int grey = Grey(in.data() + i / 3 * 3);
      sum += i % 3 == 0 ? grey : 0;
      const float rest = static_cast<float>(grey) * (1 - factor);
      ASSERT_EQ(out[i], Cut(static_cast<float>(in[i]) * factor + rest)) << pixels;
    }
    EXPECT_EQ(SumGreys3(in.data(), pixels), sum);
  }
}

TEST_P(EveryColorLevel, LongSumsDoNotOverflow) {
  constexpr int64_t kPixels = 12'000'000;
  const std::vector<uint8_t> white(3 * kPixels, 255);
  EXPECT_EQ(SumGreys3(white.data(), kPixels), kPixels * Grey(white.data()));
}

TEST_P(EveryColorLevel, Sharpen) {
  for (int64_t step : {1, 3, 4}) {
    for (int64_t count = 0; count < 70; ++count) {
      std::vector<uint8_t> lines[3];
      for (auto& line : lines) {
        line = Bytes(count + 2 * step);
        if (count % 3 == 0) std::ranges::fill(line, uint8_t{255});
      }
      const float rest = static_cast<float>(static_cast<int>(random_() % 40) - 20) / 13;
      std::vector<uint8_t> out(static_cast<size_t>(count));
      SharpenRow(lines[0].data() + step, lines[1].data() + step, lines[2].data() + step, count,
                 step, rest, out.data());
      for (int64_t i = 0; i < count; ++i) {
        int sum = 4 * lines[1][i + step];
        for (const auto& line : lines) sum += line[i] + line[i + step] + line[i + 2 * step];
        const auto value = static_cast<float>(lines[1][i + step]);
        const auto blurred = static_cast<float>((2 * sum + 13) / 26);
        ASSERT_EQ(out[i], Cut(value + (blurred - value) * rest)) << count << ", step " << step;
      }
    }
  }
}

TEST_P(EveryColorLevel, Linear) {
  for (int64_t count = 0; count < 70; ++count) {
    const std::vector<uint8_t> in = Bytes(count);
    std::vector<uint8_t> out(in.size());
    LinearRow(in.data(), count, 1.7f, -31.3f, out.data());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(out[i], Cut(static_cast<float>(in[i]) * 1.7f + -31.3f));
    }
  }
}

TEST_P(EveryColorLevel, LookUps) {
  const std::vector<uint8_t> tables = Bytes(3 * 256);
  for (int64_t count = 0; count < 300; ++count) {
    std::vector<uint8_t> in = Bytes(count);
    std::vector<uint8_t> out(in.size());
    LookUpRow(in.data(), count, tables.data(), out.data());
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], tables[in[i]]) << count;
    LookUpRow(in.data(), count, tables.data(), in.data());
    EXPECT_EQ(in, out) << "in place";
  }
  for (int64_t pixels = 0; pixels < 150; ++pixels) {
    std::vector<uint8_t> in = Bytes(3 * pixels);
    std::vector<uint8_t> out(in.size());
    LookUpRow3(in.data(), pixels, tables.data(), out.data());
    for (int64_t i = 0; i < 3 * pixels; ++i) {
      ASSERT_EQ(out[i], tables[256 * (i % 3) + in[i]]) << pixels;
    }
    LookUpRow3(in.data(), pixels, tables.data(), in.data());
    EXPECT_EQ(in, out) << "in place";
  }
}

TEST_P(EveryColorLevel, Ranges) {
  for (int64_t pixels = 0; pixels < 200; ++pixels) {
    std::vector<uint8_t> in = Bytes(3 * pixels);
    for (uint8_t& byte : in) byte = static_cast<uint8_t>(40 + byte % 150);
    // The extremes of one channel anywhere, that of the last pixels too.
    const int64_t at = pixels == 0 ? 0 : static_cast<int64_t>(random_()) % (3 * pixels);
    if (pixels > 0) in[at] = 3;
    if (pixels > 1) in[(at + 3) % (3 * pixels)] = 250;
    uint8_t least[3] = {255, 255, 255}, most[3] = {};
    for (int64_t i = 0; i < 3 * pixels; ++i) {
      least[i % 3] = std::min(least[i % 3], in[i]);
      most[i % 3] = std::max(most[i % 3], in[i]);
    }
    uint8_t low[3], high[3];
    RangeRow3(in.data(), pixels, low, high);
    EXPECT_TRUE(std::ranges::equal(low, least)) << pixels;
    EXPECT_TRUE(std::ranges::equal(high, most)) << pixels;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryColorLevel, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& test) { return RowKernelLevelName(test.param); });

}  // namespace
}  // namespace millrace::augment
