#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "augment/resize/resize.h"
#include "augment/rows/resample.h"
#include "tests/sanitized.h"

// Every level against loops that say what a method does, in integers or in double where it is
// exact. Images are of exact sizes, so that AddressSanitizer sees what is read or written beyond
// them.

namespace millrace::augment {
namespace {

struct Size {
  int64_t height, width;
};

// Rows `gap` values apart, the first one `offset` values behind the beginning of the memory.
template <typename T>
class Image {
 public:
  Image(Size size, int64_t channels, int64_t offset, int64_t gap, std::mt19937& random)
      : size_(size), channels_(channels), offset_(offset), stride_(size.width * channels + gap) {
    values_.resize(
        static_cast<size_t>(offset + (size.height - 1) * stride_ + size.width * channels));
    for (T& value : values_) value = static_cast<T>(random() % 256);
  }
  ImageView<T> view() const {
    return {values_.data() + offset_, size_.height, size_.width, stride_, channels_};
  }

 private:
  const Size size_;
  const int64_t channels_, offset_, stride_;
  std::vector<T> values_;
};

template <typename T>
using Values = std::vector<T>;

template <typename T>
T At(const ImageView<T>& in, int64_t y, int64_t x, int64_t c) {
  return in.data[y * in.stride + x * in.channels + c];
}

// --- antialias: Pillow's precompute_coeffs and the sums of its two passes ---

double Kernel(double x, bool cubic) {
  x = std::abs(x);
  if (!cubic) return std::max(1 - x, 0.0);
  if (x >= 2) return 0;
  return x < 1 ? ((-0.5 + 2) * x - (-0.5 + 3)) * x * x + 1 : (((x - 5) * x + 8) * x - 4) * -0.5;
}

struct Weighed {
  int64_t first = 0;
  std::vector<double> weights;
};

Weighed WeightsOf(int64_t i, int64_t in, int64_t out, bool cubic) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);
  const double support = (cubic ? 2 : 1) * stretch;
  const double center = (static_cast<double>(i) + 0.5) * scale;
  Weighed weighed;
  weighed.first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
  const auto last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
  double sum = 0;
  for (int64_t j = weighed.first; j < last; ++j) {
    const double x = (static_cast<double>(j) - center + 0.5) * (1.0 / stretch);
    sum += weighed.weights.emplace_back(Kernel(x, cubic));
  }
  for (double& weight : weighed.weights) weight /= sum;
  return weighed;
}

uint8_t Sum(const Weighed& weighed, const std::vector<uint8_t>& line) {
  int64_t sum = 1 << 21;
  for (size_t j = 0; j < weighed.weights.size(); ++j) {
    const double scaled = weighed.weights[j] * (1 << 22);
    sum += static_cast<int64_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5) *
           line[static_cast<size_t>(weighed.first) + j];
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> 22, 0, 255));
}
float Sum(const Weighed& weighed, const std::vector<float>& line) {
  double sum = 0;
  for (size_t j = 0; j < weighed.weights.size(); ++j) {
    sum += weighed.weights[j] * static_cast<double>(line[static_cast<size_t>(weighed.first) + j]);
  }
  return static_cast<float>(sum);
}

template <typename T>
Values<T> Antialiased(const ImageView<T>& in, bool cubic, Size to) {
  Values<T> columns(static_cast<size_t>(in.height * to.width * in.channels));
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < in.height; ++y) {
      Values<T> line;
      for (int64_t x = 0; x < in.width; ++x) line.push_back(At(in, y, x, c));
      for (int64_t x = 0; x < to.width; ++x) {
        columns[static_cast<size_t>((y * to.width + x) * in.channels + c)] =
            in.width == to.width ? line[static_cast<size_t>(x)]
                                 : Sum(WeightsOf(x, in.width, to.width, cubic), line);
      }
    }
  }
  if (in.height == to.height) return columns;
  const int64_t row = to.width * in.channels;
  Values<T> out(static_cast<size_t>(to.height * row));
  for (int64_t i = 0; i < row; ++i) {
    Values<T> line;
    for (int64_t y = 0; y < in.height; ++y)
      line.push_back(columns[static_cast<size_t>(y * row + i)]);
    for (int64_t y = 0; y < to.height; ++y) {
      out[static_cast<size_t>(y * row + i)] = Sum(WeightsOf(y, in.height, to.height, cubic), line);
    }
  }
  return out;
}

// --- bicubic: PyTorch's four weights, in float32 ---

struct CubicTaps {
  int64_t at[4];
  float weights[4];
};

CubicTaps CubicOf(int64_t i, int64_t in, int64_t out) {
  const float ratio = static_cast<float>(in) / static_cast<float>(out);
  const float position = (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
  const float floor = std::floor(position);
  const float t = position - floor;
  const auto near = [](float x) { return ((-0.75f + 2) * x - (-0.75f + 3)) * x * x + 1; };
  const auto far = [](float x) {
    return ((-0.75f * x - 5 * -0.75f) * x + 8 * -0.75f) * x - 4 * -0.75f;
  };
  CubicTaps taps{{}, {far(t + 1), near(t), near(1 - t), far(2 - t)}};
  for (int64_t k = 0; k < 4; ++k) {
    taps.at[k] = std::clamp<int64_t>(static_cast<int64_t>(floor) - 1 + k, 0, in - 1);
  }
  return taps;
}

template <typename F>
float SumOfFour(const CubicTaps& taps, const F& value) {
  float sum = taps.weights[0] * value(taps.at[0]);
  for (int k = 1; k < 4; ++k) sum += taps.weights[k] * value(taps.at[k]);
  return sum;
}

template <typename T>
Values<T> Bicubic(const ImageView<T>& in, Size to) {
  Values<T> out;
  for (int64_t y = 0; y < to.height; ++y) {
    const CubicTaps down = CubicOf(y, in.height, to.height);
    for (int64_t x = 0; x < to.width; ++x) {
      for (int64_t c = 0; c < in.channels; ++c) {
        const float value = SumOfFour(CubicOf(x, in.width, to.width), [&](int64_t column) {
          return SumOfFour(down,
                           [&](int64_t row) { return static_cast<float>(At(in, row, column, c)); });
        });
        if constexpr (sizeof(T) == 1) {
          out.push_back(static_cast<T>(std::nearbyint(std::clamp(value, 0.0f, 255.0f))));
        } else {
          out.push_back(value);
        }
      }
    }
  }
  return out;
}

// --- area: shares of pixels in units of 1 / (out_height * out_width) of one ---

template <typename T>
Values<T> Area(const ImageView<T>& in, Size to) {
  const auto share = [](int64_t i, int64_t j, int64_t from, int64_t extent) {
    return std::max<int64_t>(
        std::min((i + 1) * from, (j + 1) * extent) - std::max(i * from, j * extent), 0);
  };
  const int64_t area = in.height * in.width;
  Values<T> out;
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      for (int64_t c = 0; c < in.channels; ++c) {
        int64_t total = 0;  // values are integers
        for (int64_t i = 0; i < in.height; ++i) {
          for (int64_t j = 0; j < in.width; ++j) {
            total += share(y, i, in.height, to.height) * share(x, j, in.width, to.width) *
                     static_cast<int64_t>(At(in, i, j, c));
          }
        }
        if constexpr (sizeof(T) == 1) {
          out.push_back(static_cast<T>((total + area / 2) / area));
        } else {
          out.push_back(static_cast<float>(static_cast<double>(total) / static_cast<double>(area)));
        }
      }
    }
  }
  return out;
}

class ResampleAtEveryLevel : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseRowKernelLevel(GetParam()); }
  void TearDown() override { UseRowKernelLevel(0); }

  int64_t Extent(int64_t most) { return 1 + static_cast<int64_t>(random_() % most); }

  // Of images of any size up to 70, of 1 to 5 channels, anywhere in memory.
  template <typename T, typename Check>
  void ForImages(int count, const Check& check) {
    for (int i = 0; i < Rounds(count); ++i) {
      const int64_t channels = 1 + i % 5;
      const Size from = {Extent(i % 2 == 0 ? 6 : 30), Extent(70)};
      const Size to = {Extent(12), Extent(70)};
      const Image<T> image(from, channels, i % 3, i % 4 == 0 ? i % 7 : 0, random_);
      SCOPED_TRACE(::testing::Message() << from.height << " x " << from.width << " x " << channels
                                        << " to " << to.height << " x " << to.width);
      check(image.view(), to);
      if (::testing::Test::HasFailure()) return;
    }
  }

  template <typename T>
  static void ExpectAntialiased(const ImageView<T>& in, bool cubic, Size to) {
    RunArena arena;
    Values<T> out(static_cast<size_t>(to.height * to.width * in.channels));
    ResizeAntialias<T>(in, cubic, {out.data(), to.height, to.width}, arena);
    EXPECT_EQ(out, Antialiased(in, cubic, to));
  }
  template <typename T>
  static void ExpectBicubic(const ImageView<T>& in, Size to) {
    RunArena arena;
    Values<T> out(static_cast<size_t>(to.height * to.width * in.channels));
    ResizeBicubic<T>(in, {out.data(), to.height, to.width}, arena);
    EXPECT_EQ(out, Bicubic(in, to));
  }

  std::mt19937 random_{1};
};

TEST_P(ResampleAtEveryLevel, AntialiasedBytes) {
  ForImages<uint8_t>(200, [](const auto& in, Size to) {
    ExpectAntialiased(in, false, to);
    ExpectAntialiased(in, true, to);
  });
}

TEST_P(ResampleAtEveryLevel, AntialiasedFloats) {
  ForImages<float>(100, [](const auto& in, Size to) {
    ExpectAntialiased(in, false, to);
    ExpectAntialiased(in, true, to);
  });
}

// More taps than one window reaches, and than one register holds.
TEST_P(ResampleAtEveryLevel, AntialiasedByMuch) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const int64_t width : {100, 250, 900}) {
      for (const int64_t height : {3, 9}) {  // too few rows for windows, and enough
        const Image<uint8_t> image({height, width}, channels, 1, 0, random_);
        ExpectAntialiased(image.view(), width % 100 == 0, {2, 37});
      }
    }
  }
}

// The weights of bicubic reach below 0 and above 255.
TEST_P(ResampleAtEveryLevel, AntialiasedEdgesAreCut) {
  Image<uint8_t> image({9, 40}, 3, 0, 0, random_);
  auto* const data = const_cast<uint8_t*>(image.view().data);
  for (int64_t i = 0; i < 9 * 40 * 3; ++i) data[i] = i / 3 % 7 < 3 ? 255 : 0;
  ExpectAntialiased(image.view(), true, {20, 70});
  ExpectBicubic(image.view(), {20, 70});
}

TEST_P(ResampleAtEveryLevel, Bicubic) {
  ForImages<uint8_t>(200, [](const auto& in, Size to) { ExpectBicubic(in, to); });
  ForImages<float>(100, [](const auto& in, Size to) { ExpectBicubic(in, to); });
}

// Tables of a long row would be larger than both images, for a single use.
TEST_P(ResampleAtEveryLevel, FewRowsHaveNoWindows) {
  constexpr int64_t kWidth = 40'000, kChannels = 3;
  const Image<uint8_t> image({1, kWidth}, kChannels, 1, 0, random_);
  RunArena arena(1 << 10);
  Values<uint8_t> out(static_cast<size_t>(kWidth * kChannels));
  ResizeBicubic<uint8_t>(image.view(), {out.data(), 1, kWidth}, arena);
  EXPECT_LT(arena.capacity_bytes(), 10 * out.size());
}

template <typename T>
void ExpectArea(const ImageView<T>& in, Size to) {
  if (in.stride != in.width * in.channels) return;  // dense only
  Values<T> out(static_cast<size_t>(to.height * to.width * in.channels));
  ResizeArea<T>(in.data, in.height, in.width, in.channels, out.data(), to.height, to.width);
  EXPECT_EQ(out, Area(in, to));
}

TEST_P(ResampleAtEveryLevel, Area) {
  ForImages<uint8_t>(60, [](const auto& in, Size to) { ExpectArea(in, to); });
  ForImages<float>(40, [](const auto& in, Size to) { ExpectArea(in, to); });
}

// At the quotients that a division which is not exact would get wrong first.
TEST_P(ResampleAtEveryLevel, MeansOfLargeAreasAreExact) {
  const WeighedRange ranges[] = {{0, 1}, {1, 1}};
  const double weights[] = {1, 1};
  const PixelWeights<double> columns = {ranges, weights, 1, 2};
  for (int turn = 0; turn < 20'000; ++turn) {
    const int64_t area =
        (int64_t{1} << (turn % 2 == 0 ? 28 : 44)) - static_cast<int64_t>(random_() % 4000);
    std::vector<double> sums(7);
    std::vector<uint8_t> out(6), expected;
    for (size_t i = 0; i < 6; ++i) {
      const auto quotient = static_cast<int64_t>(random_() % 255);
      // About where the next byte begins.
      const int64_t total = quotient * area + (area + 1) / 2 - 1 + static_cast<int64_t>(i % 3);
      sums[i] = static_cast<double>(total);
      expected.push_back(static_cast<uint8_t>((total + area / 2) / area));
    }
    MeanPixels(sums.data(), 3, columns, static_cast<double>(area), out.data());
    ASSERT_EQ(out, expected) << area;
  }
}

TEST_P(ResampleAtEveryLevel, CutToBytes) {
  for (size_t n = 0; n < 70; ++n) {
    std::vector<float> in(n);
    for (float& f : in) f = static_cast<float>(static_cast<int>(random_() % 1600) - 200) / 4;
    if (n > 2) in[2] = -1e30f;
    if (n > 3) in[3] = 1e30f;
    std::vector<uint8_t> out(n);
    CutToBytes(in.data(), static_cast<int64_t>(n), out.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[i], std::nearbyint(std::clamp(in[i], 0.0f, 255.0f))) << in[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, ResampleAtEveryLevel, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& test) { return RowKernelLevelName(test.param); });

}  // namespace
}  // namespace millrace::augment
