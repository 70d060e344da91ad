#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "augment/rows/color.h"
#include "augment/rows/kernels.h"
#include "tests/sanitized.h"

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

TEST_P(EveryColorLevel, GreyRow) {
  for (int64_t pixels = 0; pixels < 80; ++pixels) {
    const std::vector<uint8_t> in = Bytes(3 * pixels);
    std::vector<uint8_t> out(in.size());
    GreyRow3(in.data(), pixels, out.data());
    for (int64_t i = 0; i < 3 * pixels; ++i) ASSERT_EQ(out[i], Grey(in.data() + i / 3 * 3));
  }
}

// torchvision's _rgb_to_hsv and _hsv_to_rgb, step by step.
void ShiftHue(const uint8_t* in, float factor, uint8_t* out) {
  float rgb[3];
  for (int c = 0; c < 3; ++c) rgb[c] = static_cast<float>(in[c]) / 255.0f;
  const float high = std::max({rgb[0], rgb[1], rgb[2]});
  const float low = std::min({rgb[0], rgb[1], rgb[2]});
  const float range = high - low;
  float hue = 0, saturation = 0;
  if (range > 0) {
    const auto below = [&](int c) { return (high - rgb[c]) / range; };
    float sector = below(2) - below(1);
    if (high != rgb[0]) {
      sector = high == rgb[1] ? below(0) + 2.0f - below(2) : below(1) + 4.0f - below(0);
    }
    hue = sector * static_cast<float>(1.0 / 6) + 1.0f;
    if (hue >= 1) hue -= 1.0f;
    saturation = range / high;
  }
  hue += factor;
  hue = hue < 0 ? hue + 1.0f : hue >= 1 ? hue - 1.0f : hue;
  const float h6 = hue * 6;
  const int sector = static_cast<int>(h6) % 6;
  const float part = saturation * (h6 - static_cast<float>(static_cast<int>(h6)));
  const float rest = 1.0f - saturation;
  const auto unit = [&](float value) { return std::clamp(value * high, 0.0f, 1.0f); };
  const float v = high, p = unit(rest), q = unit(1.0f - part), t = unit(part + rest);
  const float red[] = {v, q, p, p, t, v}, green[] = {t, v, v, q, p, p}, blue[] = {p, p, t, v, v, q};
  out[0] = static_cast<uint8_t>(red[sector] * 255.999f);
  out[1] = static_cast<uint8_t>(green[sector] * 255.999f);
  out[2] = static_cast<uint8_t>(blue[sector] * 255.999f);
}

TEST_P(EveryColorLevel, ShiftHueRow) {
  for (int64_t pixels = 0; pixels < 80; ++pixels) {
    std::vector<uint8_t> in = Bytes(3 * pixels);
    std::vector<uint8_t> out(in.size()), expected(in.size());
    const float factor = static_cast<float>(static_cast<int>(random_() % 101) - 50) / 100;
    for (int64_t i = 0; i < 3 * pixels; i += 3) {
      ShiftHue(in.data() + i, factor, expected.data() + i);
    }
    ShiftHueRow3(in.data(), pixels, factor, out.data());
    ASSERT_EQ(out, expected) << pixels;
    ShiftHueRow3(in.data(), pixels, factor, in.data());
    ASSERT_EQ(in, expected) << "in place";
  }
}

// Every sector and every edge between two: a grid with its extremes, by no turn, whole ones and
// others.
TEST_P(EveryColorLevel, ShiftHueOfAllKindsOfColours) {
  constexpr int kStep = kSanitized ? 15 : 3;
  std::vector<uint8_t> in;
  for (int red = 0; red < 256; red += kStep) {
    for (int green = 0; green < 256; green += kStep) {
      for (int blue = 0; blue < 256; blue += 5) {
        for (const int value : {red, green, blue}) in.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  const auto pixels = static_cast<int64_t>(in.size() / 3);
  std::vector<uint8_t> out(in.size()), expected(in.size());
  for (const float factor : {0.0f, -1e-10f, 0.5f, -0.5f, 1.0f / 6, -1.0f / 3, 0.123f}) {
    for (int64_t i = 0; i < 3 * pixels; i += 3) {
      ShiftHue(in.data() + i, factor, expected.data() + i);
    }
    ShiftHueRow3(in.data(), pixels, factor, out.data());
    EXPECT_TRUE(out == expected) << factor;
  }
}

template <typename T>
void ExpectBlurred(const std::vector<std::vector<T>>& lines, const std::vector<float>& weights) {
  std::vector<const T*> rows;
  for (const auto& line : lines) rows.push_back(line.data());
  std::vector<float> out(lines[0].size());
  BlurRow(rows.data(), weights.data(), static_cast<int64_t>(weights.size()),
          static_cast<int64_t>(out.size()), out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      sum += static_cast<float>(lines[k][i]) * weights[k];
    }
    ASSERT_EQ(out[i], sum) << out.size() << " values, " << weights.size() << " rows";
  }
}

TEST_P(EveryColorLevel, BlurRow) {
  for (const size_t taps : {1, 3, 9, 23}) {
    std::vector<float> weights(taps);
    for (float& weight : weights) weight = static_cast<float>(random_() % 1000) / 7000;
    for (int64_t count = 0; count < 150; ++count) {
      std::vector<std::vector<uint8_t>> bytes;
      std::vector<std::vector<float>> floats;
      for (size_t k = 0; k < taps; ++k) {
        bytes.push_back(Bytes(count));
        floats.emplace_back(bytes.back().begin(), bytes.back().end());
        for (float& value : floats.back()) value /= 3;
      }
      ExpectBlurred(bytes, weights);
      ExpectBlurred(floats, weights);
    }
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
