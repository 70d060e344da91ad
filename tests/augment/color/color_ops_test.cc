#include "augment/color_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

// Against Pillow, TensorFlow, and torchvision's formulas in NumPy
// (scripts/make_augment_fixtures.py).

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Fixture;
using testing::LargestDifference;
using testing::MakeValue;
using testing::ResolveAndApply;
using testing::RowStatus;
using testing::TestRun;
using testing::Value;

Value Colored(ColorOp op, float factor, const Value& in, int64_t kernel_size = 0) {
  return ApplyTo(MakeColor({.op = op,
                            .field = "image",
                            .probability = 1,
                            .factor = {factor, factor},
                            .kernel_size = kernel_size},
                           "color"),
                 in);
}

// --- one op each ---

// S-ROUND-1.
TEST(Color, BlendsAreTorchvisionsToTheBit) {
  const Value& in = Fixture("input/rgb");
  for (const std::string factor : {"0.0", "0.4", "1.7"}) {
    const float f = std::stof(factor);
    EXPECT_EQ(Colored(ColorOp::kBrightness, f, in), Fixture("numpy/brightness_" + factor));
    EXPECT_EQ(Colored(ColorOp::kContrast, f, in), Fixture("numpy/contrast_" + factor));
    EXPECT_EQ(Colored(ColorOp::kSaturation, f, in), Fixture("numpy/saturation_" + factor));
    EXPECT_EQ(Colored(ColorOp::kSharpness, f, in), Fixture("numpy/sharpness_" + factor));
  }
}

// Pillow works in integers: its greys are rounded, not cut off, and so is its blur.
TEST(Color, BlendsArePillowsWithinTheRoundingOfAGrey) {
  const Value& in = Fixture("input/rgb");
  for (const std::string factor : {"0.0", "0.4", "1.7"}) {
    const float f = std::stof(factor);
    const auto expect_near = [&](ColorOp op, const std::string& name, double most) {
      EXPECT_LE(
          LargestDifference(Colored(op, f, in), Fixture(absl::StrCat("pillow/", name, factor))),
          most)
          << name << factor;
    };
    expect_near(ColorOp::kBrightness, "brightness_", 1);
    expect_near(ColorOp::kContrast, "contrast_", 1);
    expect_near(ColorOp::kSaturation, "saturation_", 2);
    expect_near(ColorOp::kSharpness, "sharpness_", 1);
  }
}

TEST(Color, HueIsTorchvisionsToTheBitAndTensorFlowsWithinOne) {
  const Value& in = Fixture("input/rgb");
  for (const std::string factor : {"-0.5", "-0.1", "0.0", "0.3"}) {
    EXPECT_EQ(Colored(ColorOp::kHue, std::stof(factor), in), Fixture("numpy/hue_" + factor))
        << factor;
    EXPECT_LE(LargestDifference(Colored(ColorOp::kHue, std::stof(factor), in),
                                Fixture("tensorflow/hue_" + factor)),
              1)
        << factor;
  }
}

// TensorFlow keeps a mean for each channel: of one channel it is the mean of greys. It does not
// round that mean.
TEST(Color, ContrastOfOneChannelIsTensorFlowsWithinOne) {
  for (const std::string factor : {"0.0", "0.4", "1.7"}) {
    EXPECT_LE(
        LargestDifference(Colored(ColorOp::kContrast, std::stof(factor), Fixture("input/grey")),
                          Fixture("tensorflow/contrast_grey_" + factor)),
        1)
        << factor;
  }
}

// S-LIBRARY-1: brightness is added there, contrast has a mean for each channel, saturation is
// HSV's.
TEST(Color, TensorFlowCallsOtherChangesByTheSameNames) {
  const Value& in = Fixture("input/rgb");
  const std::tuple<ColorOp, const char*, double> ops[] = {{ColorOp::kBrightness, "brightness", 100},
                                                          {ColorOp::kContrast, "contrast", 1},
                                                          {ColorOp::kSaturation, "saturation", 50}};
  for (const auto& [op, name, least] : ops) {
    EXPECT_GT(LargestDifference(Colored(op, 0.4f, in),
                                Fixture(absl::StrCat("tensorflow/", name, "_0.4"))),
              least)
        << name;
  }
}

TEST(Color, GrayscaleIsTorchvisions) {
  EXPECT_EQ(Colored(ColorOp::kGrayscale, 0, Fixture("input/rgb")), Fixture("numpy/grayscale"));
}

TEST(Color, TablesArePillowsToTheBit) {
  const Value& in = Fixture("input/rgb");
  EXPECT_EQ(Colored(ColorOp::kInvert, 0, in), Fixture("pillow/invert"));
  EXPECT_EQ(Colored(ColorOp::kEqualize, 0, in), Fixture("pillow/equalize"));
  EXPECT_EQ(Colored(ColorOp::kEqualize, 0, Fixture("input/narrow")),
            Fixture("pillow/equalize_narrow"));
  for (const int bits : {1, 3, 8}) {
    EXPECT_EQ(Colored(ColorOp::kPosterize, static_cast<float>(bits), in),
              Fixture(absl::StrCat("pillow/posterize_", bits)));
  }
  for (const int threshold : {0, 77, 256}) {
    EXPECT_EQ(Colored(ColorOp::kSolarize, static_cast<float>(threshold), in),
              Fixture(absl::StrCat("pillow/solarize_", threshold)));
  }
}

TEST(Color, AutocontrastIsTorchvisionsAndPillowsWithinOne) {
  const Value out = Colored(ColorOp::kAutocontrast, 0, Fixture("input/narrow"));
  EXPECT_EQ(out, Fixture("numpy/autocontrast"));
  EXPECT_LE(LargestDifference(out, Fixture("pillow/autocontrast")), 1);
}

// Rounding differs where the weighted mean is a half but for an error of the sum.
TEST(Color, BlurIsTorchvisionsWithinOne) {
  const Value& in = Fixture("input/rgb");
  const auto difference = [&in](int64_t size, float sigma) {
    return LargestDifference(Colored(ColorOp::kGaussianBlur, sigma, in, size),
                             Fixture(absl::StrCat("numpy/blur_", size)));
  };
  EXPECT_LE(difference(3, 0.5f), 1);
  EXPECT_LE(difference(7, 2.0f), 1);
  EXPECT_LE(difference(13, 1.1f), 1);
}

TEST(Color, FlatImagesStayAsTheyAre) {
  const Value flat = MakeValue(DType::kU8, Shape{9, 9, 3}, std::vector<uint8_t>(243, 77));
  for (const ColorOp op : {ColorOp::kEqualize, ColorOp::kAutocontrast}) {
    EXPECT_EQ(Colored(op, 0, flat), flat) << NameOf(op);
  }
  for (const ColorOp op :
       {ColorOp::kContrast, ColorOp::kSaturation, ColorOp::kSharpness, ColorOp::kHue}) {
    EXPECT_LE(LargestDifference(Colored(op, 0.4f, flat), flat), 1) << NameOf(op);
  }
  EXPECT_EQ(Colored(ColorOp::kGaussianBlur, 2, flat, 5), flat);
}

TEST(Color, OneChannelHasNoHueAndNoSaturation) {
  const Value& in = Fixture("input/grey");
  EXPECT_EQ(Colored(ColorOp::kHue, 0.3f, in), in);
  EXPECT_EQ(Colored(ColorOp::kSaturation, 0.3f, in), in);
  EXPECT_EQ(Colored(ColorOp::kGrayscale, 0, in), in);
  EXPECT_NE(Colored(ColorOp::kContrast, 0.3f, in), in);
  EXPECT_NE(Colored(ColorOp::kSharpness, 0.3f, in), in);
}

TEST(Color, TinyAndEmptyImagesAreTaken) {
  for (const Shape& shape : {Shape{0, 4, 3}, Shape{1, 1, 3}, Shape{2, 1, 1}, Shape{1, 2, 3}}) {
    const Value in = MakeValue(DType::kU8, shape,
                               std::vector<uint8_t>(static_cast<size_t>(shape.num_elements()), 9));
    for (int i = 0; i < static_cast<int>(ColorOp::kGaussianBlur); ++i) {
      const auto op = static_cast<ColorOp>(i);
      EXPECT_EQ(Colored(op, op == ColorOp::kPosterize ? 1 : 0.25f, in).shape, shape);
    }
  }
}

TEST(Color, AnImageSmallerThanTheKernelIsAnErrorOfItsRow) {
  const Value in = MakeValue(DType::kU8, Shape{3, 9, 1}, std::vector<uint8_t>(27));
  const auto blur = [](int64_t size) {
    return MakeColor({.op = ColorOp::kGaussianBlur,
                      .field = "image",
                      .probability = 1,
                      .factor = {1, 1},
                      .kernel_size = size},
                     "blur");
  };
  EXPECT_TRUE(RowStatus(blur(5), in).ok());
  const absl::Status status = RowStatus(blur(7), in);
  EXPECT_MESSAGE(status);
  EXPECT_EQ(GetRecordError(status)->reason, RecordErrorReason::kValue);
}

TEST(Color, WrongOptionsAndFieldsAreNamed) {
  const auto error = [](ColorOp op, float low, float high, float probability = 1,
                        int64_t kernel_size = 3) {
    return MakeColor({op, "image", probability, {low, high}, kernel_size}, "a").status();
  };
  EXPECT_MESSAGE(error(ColorOp::kBrightness, 2, 1));
  EXPECT_MESSAGE(error(ColorOp::kHue, 0, 0.6f));
  EXPECT_MESSAGE(error(ColorOp::kContrast, 0, NAN));
  EXPECT_MESSAGE(error(ColorOp::kPosterize, 2.5f, 2.5f));
  EXPECT_MESSAGE(error(ColorOp::kInvert, 0, 0, 1.5f));
  EXPECT_MESSAGE(error(ColorOp::kGaussianBlur, 1, 1, 1, 4));
  auto op = MakeColor({}, "a");
  ASSERT_TRUE(op.ok());
  EXPECT_MESSAGE((*op)->Resolve(Schema({{"image", DType::kU8, Shape{4, 4, 4}}})).status());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kF32, Shape{4, 4, 3}}})).ok());
}

// --- draws ---

// A grey pixel of 100 becomes its brightness factor times 100.
TEST(Color, FactorsAreDrawnAsToldAndEvenly) {
  constexpr int64_t kRows = 4000;
  const uint8_t pixel = 100;
  auto op = MakeColor({.op = ColorOp::kBrightness,
                       .field = "image",
                       .probability = 0.75f,
                       .factor = {0.5f, 2},
                       .kernel_size = 0},
                      "light");
  ASSERT_TRUE(op.ok());
  TestRun run(kRows, 9);
  run.AddValue("image", DType::kU8, Shape{1, 1, 1}, &pixel);
  ResolveAndApply(**op, Schema({{"image", DType::kU8, Shape{1, 1, 1}}}), *run);
  int64_t applied = 0;
  double sum = 0, squares = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    RandomStream random = run->Random(row, HashName("light"));
    const int value = run->Get("image").at(row).as<uint8_t>()[0];
    if (random.NextFloat() >= 0.75f) {
      ASSERT_EQ(value, 100);
      continue;
    }
    const double factor = 0.5 + 1.5 * random.NextDouble();
    ASSERT_EQ(value, static_cast<int>(100 * static_cast<float>(factor)));
    ++applied;
    sum += value / 100.0;
    squares += value * value / 1e4;
  }
  const auto n = static_cast<double>(applied);
  EXPECT_NEAR(n / kRows, 0.75, 5 * std::sqrt(0.75 * 0.25 / kRows));
  // Uniform in [0.5, 2]: mean 1.25, variance 1.5^2 / 12; half a level is cut off.
  EXPECT_NEAR(sum / n, 1.245, 5 * std::sqrt(0.1875 / n));
  EXPECT_NEAR(squares / n - (sum / n) * (sum / n), 0.1875, 0.02);
}

// What color_ops.h tells of the draws, done by hand.
TEST(ColorJitter, IsItsFourOpsInTheOrderDrawn) {
  const Value& in = Fixture("input/rgb");
  const ColorJitterOptions options{
      .brightness = 0.4f, .contrast = 0.3f, .saturation = 0.2f, .hue = 0.1f};
  const ColorOp ops[] = {ColorOp::kBrightness, ColorOp::kContrast, ColorOp::kSaturation,
                         ColorOp::kHue};
  const float low[] = {1 - 0.4f, 1 - 0.3f, 1 - 0.2f, -0.1f};
  const float high[] = {1 + 0.4f, 1 + 0.3f, 1 + 0.2f, 0.1f};
  std::map<std::array<int, 4>, int> orders;
  for (uint64_t record = 0; record < 60; ++record) {
    TestRun run(1, 1, record);
    RandomStream random = run->Random(0, HashName("jitter"));
    random.NextFloat();
    std::array<int, 4> order = {0, 1, 2, 3};
    std::swap(order[3], order[random.Below(4)]);
    std::swap(order[2], order[random.Below(3)]);
    std::swap(order[1], order[random.Below(2)]);
    float factors[4];
    for (int i = 0; i < 4; ++i) {
      factors[i] = static_cast<float>(low[i] + (double{high[i]} - low[i]) * random.NextDouble());
    }
    Value expected = in;
    for (const int i : order) expected = Colored(ops[i], factors[i], expected);
    ASSERT_EQ(ApplyTo(MakeColorJitter(options, "jitter"), in, record), expected) << record;
    ++orders[order];
  }
  EXPECT_GT(orders.size(), 15u);  // of 24
}

// The chi-square of what `place` says of 6000 orders; 23 degrees of freedom: above 53 once in
// 3,000.
template <typename Draw>
double OrderStatistic(const Draw& draw) {
  std::map<std::array<size_t, 4>, int> seen;
  for (uint64_t record = 0; record < 6000; ++record) {
    RandomStream random(RandomKey{.seed = 3, .op = HashName("jitter"), .record = record});
    random.NextFloat();
    ++seen[draw(random)];
  }
  double chi = 250.0 * static_cast<double>(24 - seen.size());
  for (const auto& [order, count] : seen) chi += (count - 250.0) * (count - 250.0) / 250;
  return chi;
}

TEST(ColorJitter, EveryOrderIsAsLikelyAndABiasWouldBeSeen) {
  const auto shuffled = [](RandomStream& random, bool biased) {
    std::array<size_t, 4> order = {0, 1, 2, 3};
    // The well-known mistake: every place swaps with any other.
    for (size_t i = 3; i > 0; --i) std::swap(order[i], order[random.Below(biased ? 4 : i + 1)]);
    return order;
  };
  EXPECT_LT(OrderStatistic([&](RandomStream& random) { return shuffled(random, false); }), 53);
  EXPECT_GT(OrderStatistic([&](RandomStream& random) { return shuffled(random, true); }), 53);
}

TEST(ColorJitter, NothingAskedForChangesNothing) {
  const Value& in = Fixture("input/rgb");
  EXPECT_EQ(ApplyTo(MakeColorJitter({}, "jitter"), in), in);
  EXPECT_EQ(ApplyTo(MakeColorJitter({.brightness = 1, .probability = 0}, "jitter"), in), in);
  EXPECT_FALSE(MakeColorJitter({.brightness = -1}, "jitter").ok());
  EXPECT_FALSE(MakeColorJitter({.hue = 0.6f}, "jitter").ok());
}

}  // namespace
}  // namespace millrace::augment
