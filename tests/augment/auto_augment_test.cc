#include "augment/auto_augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>

#include "augment/auto_augment_internal.h"
#include "fixtures.h"
#include "image_testing.h"

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Fixture;
using ::testing::HasSubstr;
using testing::MakeValue;
using testing::TestRun;
using testing::Value;

Value Transformed(const DrawnTransform& drawn, const Value& in, uint8_t fill = 9) {
  const ColorImage view{in.as<uint8_t>().data(), in.shape[0], in.shape[1], in.shape[2]};
  std::vector<uint8_t> out(in.bytes.size());
  ApplyTransform(drawn, view, false, fill, out.data());
  return MakeValue(DType::kU8, in.shape, out);
}

RandomStream Stream(uint64_t record) {
  return RandomStream(RandomKey{.seed = 1, .op = HashName("policy"), .record = record});
}

// --- transforms ---

TEST(AutoAugmentTransforms, MovesAreTorchvisionsOnPilImages) {
  const Value& in = Fixture("input/rgb");
  const auto moved = [&](Transform transform, double magnitude) {
    return Transformed({transform, magnitude}, in);
  };
  EXPECT_TRUE(moved(Transform::kShearX, 0.3) == Fixture("pillow/shear_x_0.3"));
  EXPECT_TRUE(moved(Transform::kShearX, -0.99) == Fixture("pillow/shear_x_-0.99"));
  EXPECT_TRUE(moved(Transform::kShearY, 0.21) == Fixture("pillow/shear_y_0.21"));
  EXPECT_TRUE(moved(Transform::kTranslateX, -5.7) == Fixture("pillow/translate_x_-5.7"));
  EXPECT_TRUE(moved(Transform::kTranslateY, 9.2) == Fixture("pillow/translate_y_9.2"));
  EXPECT_TRUE(moved(Transform::kRotate, 27) == Fixture("pillow/rotate_27.0"));
  EXPECT_TRUE(moved(Transform::kRotate, -135) == Fixture("pillow/rotate_-135.0"));
}

TEST(AutoAugmentTransforms, ColorsAreThoseOfTheirOps) {
  const Value& in = Fixture("input/rgb");
  const auto colored = [&](Transform transform, double magnitude) {
    return Transformed({transform, magnitude}, in);
  };
  EXPECT_TRUE(colored(Transform::kIdentity, 0) == in);
  EXPECT_TRUE(colored(Transform::kBrightness, double{0.4f} - 1) == Fixture("numpy/brightness_0.4"));
  EXPECT_TRUE(colored(Transform::kColor, double{1.7f} - 1) == Fixture("numpy/saturation_1.7"));
  EXPECT_TRUE(colored(Transform::kContrast, double{0.4f} - 1) == Fixture("numpy/contrast_0.4"));
  EXPECT_TRUE(colored(Transform::kSharpness, double{1.7f} - 1) == Fixture("numpy/sharpness_1.7"));
  EXPECT_TRUE(colored(Transform::kPosterize, 3) == Fixture("pillow/posterize_3"));
  EXPECT_TRUE(colored(Transform::kSolarize, 77.0 / 255) == Fixture("pillow/solarize_77"));
  EXPECT_TRUE(colored(Transform::kEqualize, 0) == Fixture("pillow/equalize"));
  EXPECT_TRUE(colored(Transform::kInvert, 0) == Fixture("pillow/invert"));
  EXPECT_TRUE(Transformed({Transform::kAutoContrast, 0}, Fixture("input/narrow")) ==
              Fixture("numpy/autocontrast"));
}

// --- what is drawn ---

// Magnitudes without sign, by transform, of an image of 662 x 331.
std::map<Transform, std::vector<double>> Drawn(const AutoAugmentOptions& options) {
  std::map<Transform, std::vector<double>> drawn;
  for (uint64_t record = 0; record < 4000; ++record) {
    RandomStream random = Stream(record);
    for (const DrawnTransform& one : DrawTransforms(options, 662, 331, random)) {
      drawn[one.transform].push_back(one.magnitude);
    }
  }
  return drawn;
}

// torch.linspace and arange at bin 9 of 31, and at the ends.
TEST(RandAugment, MagnitudesAreTorchvisions) {
  struct Expected {
    Transform transform;
    double at_9, at_30;
  };
  const Expected table[] = {{Transform::kIdentity, 0, 0},        {Transform::kShearX, 0.09, 0.3},
                            {Transform::kShearY, 0.09, 0.3},     {Transform::kTranslateX, 45, 150},
                            {Transform::kTranslateY, 90, 300},   {Transform::kRotate, 9, 30},
                            {Transform::kBrightness, 0.27, 0.9}, {Transform::kColor, 0.27, 0.9},
                            {Transform::kContrast, 0.27, 0.9},   {Transform::kSharpness, 0.27, 0.9},
                            {Transform::kPosterize, 7, 4},  // 8 - 1.2 rounded
                            {Transform::kSolarize, 0.7, 0},      {Transform::kAutoContrast, 0, 0},
                            {Transform::kEqualize, 0, 0}};
  const auto nine = Drawn({.magnitude = 9});
  const auto most = Drawn({.magnitude = 30});
  ASSERT_EQ(nine.size(), std::size(table));
  for (const Expected& expected : table) {
    for (const double magnitude : nine.at(expected.transform)) {
      ASSERT_NEAR(std::abs(magnitude), expected.at_9, 1e-9);
    }
    for (const double magnitude : most.at(expected.transform)) {
      ASSERT_NEAR(std::abs(magnitude), expected.at_30, 1e-9);
    }
  }
}

// Pearson's statistic of counts that should be alike.
double ChiSquare(const std::vector<double>& counts) {
  double sum = 0, chi = 0;
  for (const double count : counts) sum += count;
  const double mean = sum / static_cast<double>(counts.size());
  for (const double count : counts) chi += (count - mean) * (count - mean) / mean;
  return chi;
}

TEST(RandAugment, TransformsAndSignsAreAsLikelyAndABiasWouldBeSeen) {
  std::vector<double> counts;
  double negative = 0, has_sign = 0;
  for (const auto& [transform, magnitudes] : Drawn({})) {
    counts.push_back(static_cast<double>(magnitudes.size()));
    if (transform < Transform::kShearX || transform > Transform::kSharpness) {
      for (const double magnitude : magnitudes) ASSERT_GE(magnitude, 0);
      continue;
    }
    has_sign += static_cast<double>(magnitudes.size());
    for (const double magnitude : magnitudes) negative += magnitude < 0 ? 1 : 0;
  }
  EXPECT_LT(ChiSquare(counts), 40);  // 13 degrees of freedom: above it once in 10^4 seeds
  // The well-known mistake: a remainder of words whose number 14 does not divide.
  std::vector<double> biased(14);
  for (uint64_t record = 0; record < 8000; ++record) ++biased[Stream(record).NextU32() % 16 % 14];
  EXPECT_GT(ChiSquare(biased), 40);
  EXPECT_NEAR(negative / has_sign, 0.5, 5 * 0.5 / std::sqrt(has_sign));
}

TEST(RandAugment, IsItsTransformsOneAfterTheOther) {
  const Value& in = Fixture("input/rgb");
  for (const int num_ops : {1, 2, 3}) {
    const AutoAugmentOptions options{.num_ops = num_ops, .magnitude = 20, .fill = 9};
    for (uint64_t record = 0; record < 30; ++record) {
      RandomStream random = Stream(record);
      RandomStream words = Stream(record);
      Value expected = in;
      for (const DrawnTransform& drawn :
           DrawTransforms(options, in.shape[0], in.shape[1], random)) {
        ASSERT_EQ(static_cast<uint64_t>(drawn.transform), words.Below(14));
        if (drawn.transform >= Transform::kShearX && drawn.transform <= Transform::kSharpness) {
          ASSERT_EQ(drawn.magnitude < 0, words.NextFloat() < 0.5f);
        }
        expected = Transformed(drawn, expected);
      }
      ASSERT_TRUE(ApplyTo(MakeAutoAugment(options, "policy"), in, record) == expected) << record;
    }
  }
}

TEST(TrivialAugment, DrawsEveryMagnitudeOfTheWideSpace) {
  const auto drawn = Drawn({.policy = AugmentPolicy::kTrivialAugment});
  ASSERT_EQ(drawn.size(), 14u);
  const auto largest = [&](Transform transform) {
    double most = 0;
    for (const double magnitude : drawn.at(transform)) most = std::max(most, std::abs(magnitude));
    return most;
  };
  EXPECT_NEAR(largest(Transform::kShearX), 0.99, 1e-9);
  EXPECT_NEAR(largest(Transform::kTranslateX), 32, 1e-9);
  EXPECT_NEAR(largest(Transform::kTranslateY), 32, 1e-9);
  EXPECT_NEAR(largest(Transform::kRotate), 135, 1e-9);
  EXPECT_NEAR(largest(Transform::kColor), 0.99, 1e-9);
  std::map<double, double> bits;
  for (const double magnitude : drawn.at(Transform::kPosterize)) ++bits[magnitude];
  EXPECT_EQ(bits.begin()->first, 2);
  EXPECT_EQ(bits.rbegin()->first, 8);
  std::vector<double> bins(31);
  for (const double magnitude : drawn.at(Transform::kSolarize)) {
    ++bins[static_cast<size_t>(std::lround(magnitude * 30))];
  }
  EXPECT_LT(ChiSquare(bins), 67);  // 30 degrees of freedom: above it once in 10^4 seeds
}

// How often each transform comes is what its probabilities in the published pairs add up to.
TEST(ImageNetPolicy, DrawsPairsByTheirProbabilities) {
  const auto drawn = Drawn({.policy = AugmentPolicy::kImageNet});
  double total = 0;
  for (const auto& [transform, magnitudes] : drawn) total += static_cast<double>(magnitudes.size());
  // The sum of the 50 probabilities of the published policy over its 25 pairs.
  EXPECT_NEAR(total / 4000, 31.0 / 25, 5 * 0.6 / std::sqrt(4000));
  const auto share = [&](Transform transform) {
    return static_cast<double>(drawn.at(transform).size()) / 4000;
  };
  EXPECT_NEAR(share(Transform::kShearX), 0.6 / 25, 0.012);
  EXPECT_NEAR(share(Transform::kInvert), 1.8 / 25, 0.02);
  EXPECT_NEAR(share(Transform::kSharpness), 0.4 / 25, 0.01);
  EXPECT_EQ(drawn.count(Transform::kTranslateX), 0u);
  EXPECT_EQ(drawn.count(Transform::kBrightness), 0u);
  for (const double magnitude : drawn.at(Transform::kContrast)) {
    ASSERT_NEAR(std::abs(magnitude), 0.8, 1e-9);
  }
  for (const double magnitude : drawn.at(Transform::kShearX)) {
    ASSERT_NEAR(std::abs(magnitude), 0.3 * 5 / 9, 1e-9);
  }
  std::map<double, int> bits;
  for (const double magnitude : drawn.at(Transform::kPosterize)) ++bits[magnitude];
  EXPECT_EQ(bits.size(), 3u);  // bins 5 to 8: 6, 5, 5, 4
  EXPECT_EQ(bits.begin()->first, 4);
  EXPECT_EQ(bits.rbegin()->first, 6);
}

TEST(AutoAugment, OtherFieldsAndOptionsAreNamed) {
  const auto error = [](const AutoAugmentOptions& options) {
    return std::string(MakeAutoAugment(options, "a").status().message());
  };
  EXPECT_EQ(error({.num_ops = 0}), "auto_augment: num_ops is 0; expected 1 to 16");
  EXPECT_THAT(error({.magnitude = 31}), HasSubstr("magnitude is 31; expected 0 to 30"));
  EXPECT_THAT(error({.magnitude = 0, .num_magnitude_bins = 1}), HasSubstr("num_magnitude_bins"));
  EXPECT_THAT(error({.fill = NAN}), HasSubstr("fill"));
  auto op = MakeAutoAugment({}, "a");
  ASSERT_TRUE(op.ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kF32, Shape{4, 4, 3}}})).ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kU8, Shape{4, 4, 4}}})).ok());
  const Value empty = MakeValue(DType::kU8, Shape{0, 4, 3}, std::vector<uint8_t>());
  EXPECT_TRUE(ApplyTo(std::move(op), empty) == empty);
}

}  // namespace
}  // namespace millrace::augment
