#include "augment/distort_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "augment/geometry/affine.h"
#include "augment/rows/kernels.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Fixture;
using testing::MakeValue;
using testing::ResolveAndApply;
using testing::TestRun;
using testing::Value;

// --- affine ---

Value Affine(const AffineParameters& p, bool bilinear, const Value& in) {
  const auto shift = [&](double pixels, int64_t extent) {
    return static_cast<float>(pixels / static_cast<double>(extent));
  };
  AffineOptions options;
  const auto fix = [](double value) {
    return std::array<float, 2>{static_cast<float>(value), static_cast<float>(value)};
  };
  options.degrees = fix(p.degrees);
  options.scale = fix(p.scale);
  options.shear_x = fix(p.shear_x);
  options.shear_y = fix(p.shear_y);
  options.translate = {shift(std::abs(p.translate_x), in.shape[1]),
                       shift(std::abs(p.translate_y), in.shape[0])};
  options.bilinear = bilinear;
  options.fill = 9;
  return ApplyTo(MakeAffine(options, "affine"), in);
}

// S-ROUND-1.
TEST(Affine, IsPillowsTransformByTorchvisionsMatrixToTheBit) {
  const Value& in = Fixture("input/rgb");
  const ColorImage view{in.as<uint8_t>().data(), in.shape[0], in.shape[1], in.shape[2]};
  std::vector<uint8_t> out(in.bytes.size());
  int number = 0;
  for (const AffineParameters& p : testing::kAffineCases) {
    const AffineMatrix matrix = InverseAffine(p, view.height, view.width);
    WarpNearest(view, matrix, 9, out.data());
    EXPECT_TRUE(MakeValue(DType::kU8, in.shape, out) ==
                Fixture(absl::StrCat("pillow/affine_nearest_", number)))
        << number;
    WarpBilinear(view, matrix, 9, out.data());
    EXPECT_TRUE(MakeValue(DType::kU8, in.shape, out) ==
                Fixture(absl::StrCat("pillow/affine_bilinear_", number)))
        << number;
    ++number;
  }
}

// Exact sizes, so that AddressSanitizer sees what is read or written beyond them.
class AffineAtEveryLevel : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseRowKernelLevel(GetParam()); }
  void TearDown() override { UseRowKernelLevel(0); }
};

void ExpectNearest(const ColorImage& in, const AffineMatrix& m) {
  const auto fixed = [](double v) { return static_cast<int64_t>(std::floor(v * 65536 + 0.5)); };
  const int64_t channels = in.channels, width = in.width;
  std::vector<uint8_t> out(static_cast<size_t>(in.height * width * channels));
  WarpNearest(in, m, 9, out.data());
  const int64_t first_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  const int64_t first_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (int64_t i = 0; i < in.height * width * channels; ++i) {
    const int64_t row = i / channels / width, column = i / channels % width;
    const int64_t x = (first_x + row * fixed(m[1]) + column * fixed(m[0])) >> 16;
    const int64_t y = (first_y + row * fixed(m[4]) + column * fixed(m[3])) >> 16;
    const bool inside = x >= 0 && x < width && y >= 0 && y < in.height;
    const int expected = inside ? in.data[(y * width + x) * channels + i % channels] : 9;
    ASSERT_EQ(out[static_cast<size_t>(i)], expected) << "value " << i;
  }
}

TEST_P(AffineAtEveryLevel, NearestTakesThePixelAtEachPlaceInFixedPoint) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 400; ++turn) {
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    const int64_t height = 1 + below(12), width = 1 + below(150), channels = 1 + below(4);
    std::vector<uint8_t> in(static_cast<size_t>(height * width * channels));
    for (uint8_t& byte : in) byte = static_cast<uint8_t>(random());
    const ColorImage view{in.data(), height, width, channels};
    AffineMatrix m;
    for (double& entry : m) entry = static_cast<double>(below(4001) - 2000) / 800;
    if (turn % 4 == 0) m[0] = m[4] = 1;
    if (turn % 5 == 0) m[3] = 0;
    if (turn % 7 == 0) m[0] = 0;
    if (turn % 3 == 0) m[3] /= 50;  // long rows inside
    m[2] *= 4;
    ExpectNearest(view, m);
    if (HasFailure()) FAIL() << turn;
  }
}

// Places of which are above 2^31 in fixed point, or would be in the registers' arithmetic.
TEST_P(AffineAtEveryLevel, NearestOfLongRows) {
  std::mt19937 random(1);
  for (const int64_t width : {16'384, 16'400, 40'000}) {
    std::vector<uint8_t> in(static_cast<size_t>(3 * width * 3));
    for (uint8_t& byte : in) byte = static_cast<uint8_t>(random());
    const ColorImage view{in.data(), 3, width, 3};
    ExpectNearest(view, {0.999, 0, 30, 1.0 / static_cast<double>(width), 1, 0});
    ExpectNearest(view, {-0.999, 0, static_cast<double>(width), 0, 1, 0});
    const AffineParameters turned{.degrees = 1};
    ExpectNearest(view, InverseAffine(turned, view.height, view.width));
  }
}

TEST_P(AffineAtEveryLevel, BilinearBlendsTheFourPixelsAroundEachPlace) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 600; ++turn) {
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    const int64_t height = 1 + below(12), width = 1 + below(150), channels = 1 + below(4);
    std::vector<uint8_t> in(static_cast<size_t>(height * width * channels));
    for (uint8_t& byte : in) byte = static_cast<uint8_t>(random());
    AffineMatrix m;
    for (double& entry : m) entry = static_cast<double>(below(4001) - 2000) / 1700;
    if (turn % 3 == 0) m = {1, 0, 0, 0, 1, 0};
    if (turn % 6 == 0) m[2] = static_cast<double>(below(9)) / 8;
    if (turn % 4 == 0) m[3] /= 50;  // long rows inside
    std::vector<uint8_t> out(in.size());
    WarpBilinear({in.data(), height, width, channels}, m, 9, out.data());
    for (int64_t i = 0; i < height * width; ++i) {
      const double row = static_cast<double>(i / width) + 0.5;
      const double column = static_cast<double>(i % width) + 0.5;
      const double x = m[0] * column + m[1] * row + m[2];
      const double y = m[3] * column + m[4] * row + m[5];
      const bool inside =
          x >= 0 && x < static_cast<double>(width) && y >= 0 && y < static_cast<double>(height);
      const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
      for (int64_t c = 0; c < channels; ++c) {
        const auto value = [&](double at_y, double at_x) {
          const auto line = std::clamp<int64_t>(static_cast<int64_t>(at_y), 0, height - 1);
          const auto place = std::clamp<int64_t>(static_cast<int64_t>(at_x), 0, width - 1);
          return static_cast<double>(
              in[static_cast<size_t>((line * width + place) * channels + c)]);
        };
        const auto along = [&](double line) {
          const double first = value(line, left);
          return first + (value(line, left + 1) - first) * (x - 0.5 - left);
        };
        int expected = 9;
        if (inside) {
          const double above = along(top);
          expected = static_cast<int>(above + (along(top + 1) - above) * (y - 0.5 - top));
        }
        ASSERT_EQ(out[static_cast<size_t>(i * channels + c)], expected) << turn << ", pixel " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Warps, AffineAtEveryLevel, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& test) { return RowKernelLevelName(test.param); });

TEST(Affine, TheOpTurnsByWhatItsRangesSay) {
  const Value& in = Fixture("input/rgb");
  for (const int number : {0, 1, 3, 4}) {  // without shifts, whose range is around 0
    EXPECT_TRUE(Affine(testing::kAffineCases[number], false, in) ==
                Fixture(absl::StrCat("pillow/affine_nearest_", number)))
        << number;
    EXPECT_TRUE(Affine(testing::kAffineCases[number], true, in) ==
                Fixture(absl::StrCat("pillow/affine_bilinear_", number)))
        << number;
  }
  EXPECT_TRUE(Affine({}, false, in) == in);
  EXPECT_TRUE(Affine({}, true, in) == in);
  EXPECT_TRUE(ApplyTo(MakeAffine({.degrees = {90, 90}, .probability = 0}, "a"), in) == in);
}

TEST(Affine, DrawsAreThoseTold) {
  const Value& in = Fixture("input/rgb");
  const AffineOptions options{.degrees = {-20, 40},
                              .translate = {0.2f, 0.3f},
                              .scale = {0.5f, 2},
                              .shear_x = {-5, 5},
                              .shear_y = {0, 9}};
  const ColorImage view{in.as<uint8_t>().data(), in.shape[0], in.shape[1], in.shape[2]};
  std::vector<uint8_t> out(in.bytes.size());
  for (uint64_t record = 0; record < 20; ++record) {
    TestRun run(1, 1, record);
    RandomStream random = run->Random(0, HashName("turn"));
    random.NextFloat();
    const auto draw = [&random](double low, double high) {
      return low + (high - low) * random.NextDouble();
    };
    AffineParameters p;
    p.degrees = draw(-20, 40);
    const double most_x = double{0.2f} * 19, most_y = double{0.3f} * 29;
    p.translate_x = std::nearbyint(draw(-most_x, most_x));
    p.translate_y = std::nearbyint(draw(-most_y, most_y));
    p.scale = draw(0.5, 2);
    p.shear_x = draw(-5, 5);
    p.shear_y = draw(0, 9);
    WarpNearest(view, InverseAffine(p, view.height, view.width), 0, out.data());
    ASSERT_TRUE(ApplyTo(MakeAffine(options, "turn"), in, record) ==
                MakeValue(DType::kU8, in.shape, out))
        << record;
  }
}

TEST(Affine, ExtremeMatricesReadNothingBeyondTheImage) {
  const Value in = MakeValue(DType::kU8, Shape{1, 300, 1}, std::vector<uint8_t>(300, 7));
  for (const float shear : {-89.0f, 0.0f, 89.0f}) {
    for (const float scale : {0.01f, 100.0f}) {
      for (const bool bilinear : {false, true}) {
        const AffineOptions options{.degrees = {77, 77},
                                    .scale = {scale, scale},
                                    .shear_x = {shear, shear},
                                    .shear_y = {shear, shear},
                                    .bilinear = bilinear,
                                    .fill = 7};
        EXPECT_TRUE(ApplyTo(MakeAffine(options, "a"), in) == in);
      }
    }
  }
}

TEST(Affine, WrongOptionsAreNamed) {
  const auto error = [](const AffineOptions& options) { return MakeAffine(options, "a").status(); };
  EXPECT_MESSAGE(error({.degrees = {10, -10}}));
  EXPECT_MESSAGE(error({.scale = {0, 1}}));
  EXPECT_MESSAGE(error({.translate = {2, 0}}));
  EXPECT_MESSAGE(error({.shear_x = {0, 90}}));
  EXPECT_MESSAGE(error({.shear_y = {NAN, 0}}));
  EXPECT_MESSAGE(error({.fill = 256}));
  EXPECT_MESSAGE(error({.probability = -1}));
}

// --- random_erasing, cutout ---

struct Box {
  int64_t top, left, height, width;
};

// Where the op has written 1 into zeros; nullopt: nowhere. Fails the test when that is no
// rectangle.
std::optional<Box> Blotted(const ConstTensorView& image) {
  const auto values = image.as<uint8_t>();
  const int64_t width = image.shape[1];
  int64_t first = -1, last = -1, count = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    if (values[static_cast<size_t>(i)] == 0) continue;
    if (first < 0) first = i;
    last = i;
    ++count;
  }
  if (count == 0) return std::nullopt;
  const Box box{first / width, first % width, last / width - first / width + 1,
                last % width - first % width + 1};
  EXPECT_EQ(count, box.height * box.width);
  return box;
}

std::vector<std::optional<Box>> BlotZeros(const absl::StatusOr<std::unique_ptr<Op>>& op,
                                          const Shape& shape, int64_t rows) {
  EXPECT_TRUE(op.ok()) << op.status();
  const std::vector<uint8_t> zeros(static_cast<size_t>(shape.num_elements()));
  TestRun run(rows, 5);
  run.AddValue("image", DType::kU8, shape, zeros.data());
  ResolveAndApply(**op, Schema({{"image", DType::kU8, shape}}), *run);
  std::vector<std::optional<Box>> boxes;
  for (int64_t row = 0; row < rows; ++row) boxes.push_back(Blotted(run->Get("image").at(row)));
  return boxes;
}

TEST(RandomErasing, RectanglesHaveTheAreaAndAspectAskedForAtEvenPlaces) {
  const auto boxes = BlotZeros(
      MakeRandomErasing(
          {.probability = 0.75f, .area = {0.1f, 0.3f}, .aspect = {0.5f, 2}, .value = 1}, "erase"),
      Shape{60, 80, 1}, 3000);
  double erased = 0, area = 0, log_aspect = 0, middle = 0;
  for (const auto& box : boxes) {
    if (!box) continue;
    ++erased;
    const double share = static_cast<double>(box->height * box->width) / 4800;
    ASSERT_TRUE(share > 0.09 && share < 0.31) << share;
    const double aspect = static_cast<double>(box->height) / static_cast<double>(box->width);
    ASSERT_TRUE(aspect > 0.45 && aspect < 2.2) << aspect;
    area += share;
    log_aspect += std::log(aspect);
    middle += static_cast<double>(box->left) / static_cast<double>(80 - box->width);
  }
  EXPECT_NEAR(erased / 3000, 0.75, 5 * std::sqrt(0.1875 / 3000));
  EXPECT_NEAR(area / erased, 0.2, 5 * 0.058 / std::sqrt(erased));
  EXPECT_NEAR(log_aspect / erased, 0, 0.05);
  EXPECT_NEAR(middle / erased, 0.5, 5 * 0.3 / std::sqrt(erased));
}

TEST(RandomErasing, FirstTryIsDrawnAsTold) {
  const auto boxes =
      BlotZeros(MakeRandomErasing({.probability = 1, .value = 1}, "erase"), Shape{200, 200, 1}, 50);
  int64_t compared = 0;
  for (uint64_t record = 0; record < 50; ++record) {
    RandomStream random(RandomKey{.seed = 5, .op = HashName("erase"), .record = record});
    random.NextFloat();
    const double low = double{0.02f}, high = double{0.33f};
    const double area = 40000.0 * (low + (high - low) * random.NextDouble());
    const double first = std::log(double{0.3f}), last = std::log(double{3.3f});
    const double aspect = std::exp(first + (last - first) * random.NextDouble());
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(area * aspect)));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(area / aspect)));
    if (height >= 200 || width >= 200) continue;
    ++compared;
    const std::optional<Box>& box = boxes[record];
    ASSERT_TRUE(box.has_value());
    EXPECT_EQ(box->height, height);
    EXPECT_EQ(box->width, width);
    EXPECT_EQ(box->top, static_cast<int64_t>(random.Below(static_cast<uint64_t>(201 - height))));
    EXPECT_EQ(box->left, static_cast<int64_t>(random.Below(static_cast<uint64_t>(201 - width))));
  }
  EXPECT_GT(compared, 30);
}

TEST(RandomErasing, ARectangleThatNeverFitsLeavesTheImage) {
  for (const auto& box :
       BlotZeros(MakeRandomErasing({.probability = 1, .area = {1, 1}, .aspect = {1, 1}, .value = 1},
                                   "erase"),
                 Shape{9, 9, 1}, 20)) {
    EXPECT_FALSE(box.has_value());
  }
}

TEST(Cutout, IsASquareAroundACentreAnywhereCutOffAtTheEdges) {
  const auto boxes = BlotZeros(MakeCutout({.size = 5, .value = 1}, "cut"), Shape{9, 12, 1}, 3000);
  std::map<std::pair<int64_t, int64_t>, int> corners;
  for (uint64_t record = 0; record < 3000; ++record) {
    RandomStream random(RandomKey{.seed = 5, .op = HashName("cut"), .record = record});
    random.NextFloat();
    const auto y = static_cast<int64_t>(random.Below(9));
    const auto x = static_cast<int64_t>(random.Below(12));
    const std::optional<Box>& box = boxes[record];
    ASSERT_TRUE(box.has_value());
    EXPECT_EQ(box->top, std::max<int64_t>(y - 2, 0));
    EXPECT_EQ(box->left, std::max<int64_t>(x - 2, 0));
    EXPECT_EQ(box->top + box->height, std::min<int64_t>(y + 3, 9));
    EXPECT_EQ(box->left + box->width, std::min<int64_t>(x + 3, 12));
    ++corners[{y, x}];
  }
  ASSERT_EQ(corners.size(), 108u);
  double chi = 0;
  for (const auto& [place, count] : corners) chi += (count - 27.8) * (count - 27.8) / 27.8;
  EXPECT_LT(chi, 170);  // 107 degrees of freedom: above it once in 10^4 seeds
}

TEST(Cutout, TakesAnyTypeAndAllChannels) {
  const Value in = MakeValue(DType::kF32, Shape{1, 2, 3}, std::vector<float>(6, 1));
  EXPECT_TRUE(ApplyTo(MakeCutout({.size = 9, .value = -0.5f}, "cut"), in) ==
              MakeValue(DType::kF32, in.shape, std::vector<float>(6, -0.5f)));
  EXPECT_TRUE(ApplyTo(MakeCutout({.size = 9, .probability = 0}, "cut"), in) == in);
}

TEST(Blots, WrongOptionsAreNamed) {
  EXPECT_MESSAGE(MakeCutout({.size = 0}, "a").status());
  EXPECT_FALSE(MakeCutout({.size = 1, .probability = 2}, "a").ok());
  EXPECT_FALSE(MakeRandomErasing({.area = {0.5f, 0.1f}}, "a").ok());
  EXPECT_FALSE(MakeRandomErasing({.aspect = {0, 1}}, "a").ok());
  EXPECT_FALSE(MakeRandomErasing({.value = NAN}, "a").ok());
}

}  // namespace
}  // namespace millrace::augment
