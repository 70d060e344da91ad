#include "augment/auto_augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "augment/policy/auto_augment.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Fixture;
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

bool HasSign(Transform transform) {
  return transform >= Transform::kShearX && transform <= Transform::kSharpness;
}

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
    if (!HasSign(transform)) {
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
        if (HasSign(drawn.transform)) {
          ASSERT_EQ(drawn.magnitude < 0, words.NextFloat() < 0.5f);
        }
        expected = Transformed(drawn, expected);
      }
      ASSERT_TRUE(ApplyTo(MakeAutoAugment(options, "policy"), in, record) == expected) << record;
    }
  }
}

// Both took as many words when the next ones are the same.
void ExpectSamePlace(RandomStream& random, RandomStream& words, uint64_t record) {
  ASSERT_EQ(random.NextU64(), words.NextU64()) << record;
}

// Number `bin` of 31.
double WideMagnitude(Transform transform, uint64_t bin) {
  const double share = static_cast<double>(bin) / 30;
  if (transform == Transform::kTranslateX || transform == Transform::kTranslateY) return 32 * share;
  if (transform == Transform::kRotate) return 135 * share;
  if (transform == Transform::kPosterize) return std::nearbyint(8 - 6 * share);
  if (transform == Transform::kSolarize) return 1 - share;
  return 0.99 * share;
}

TEST(TrivialAugment, DrawsTheWordsThatItsHeaderSays) {
  for (uint64_t record = 0; record < 300; ++record) {
    RandomStream random = Stream(record);
    RandomStream words = Stream(record);
    const AutoAugmentOptions options{.policy = AugmentPolicy::kTrivialAugment};
    const DrawnTransforms drawn = DrawTransforms(options, 662, 331, random);
    ASSERT_EQ(drawn.size(), 1u);
    const auto transform = static_cast<Transform>(words.Below(14));
    double magnitude = 0;
    if (transform != Transform::kIdentity && transform != Transform::kAutoContrast &&
        transform != Transform::kEqualize) {
      magnitude = WideMagnitude(transform, words.Below(31));
    }
    if (HasSign(transform) && words.NextFloat() < 0.5f) magnitude = -magnitude;
    ASSERT_EQ(drawn[0].transform, transform) << record;
    ASSERT_NEAR(drawn[0].magnitude, magnitude, 1e-9) << record;
    ASSERT_EQ(std::signbit(drawn[0].magnitude), std::signbit(magnitude)) << record;
    ASSERT_NO_FATAL_FAILURE(ExpectSamePlace(random, words, record));
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

struct PolicyStep {
  Transform transform;
  float probability;
  double magnitude;
};

// torchvision's list, with the magnitudes that its levels of 0 to 9 stand for (of Posterize, 5 to 8
// are 6, 5, 5 and 4 bits).
std::vector<std::array<PolicyStep, 2>> ImageNetPairs() {
  using enum Transform;
  const auto turn = [](int level) { return 30.0 * level / 9; };
  const auto color = [](int level) { return 0.9 * level / 9; };
  const auto threshold = [](int level) { return 1 - level / 9.0; };
  return {
      {{{kPosterize, 0.4f, 4}, {kRotate, 0.6f, turn(9)}}},
      {{{kSolarize, 0.6f, threshold(5)}, {kAutoContrast, 0.6f, 0}}},
      {{{kEqualize, 0.8f, 0}, {kEqualize, 0.6f, 0}}},
      {{{kPosterize, 0.6f, 5}, {kPosterize, 0.6f, 5}}},
      {{{kEqualize, 0.4f, 0}, {kSolarize, 0.2f, threshold(4)}}},
      {{{kEqualize, 0.4f, 0}, {kRotate, 0.8f, turn(8)}}},
      {{{kSolarize, 0.6f, threshold(3)}, {kEqualize, 0.6f, 0}}},
      {{{kPosterize, 0.8f, 6}, {kEqualize, 1.0f, 0}}},
      {{{kRotate, 0.2f, turn(3)}, {kSolarize, 0.6f, threshold(8)}}},
      {{{kEqualize, 0.6f, 0}, {kPosterize, 0.4f, 5}}},
      {{{kRotate, 0.8f, turn(8)}, {kColor, 0.4f, color(0)}}},
      {{{kRotate, 0.4f, turn(9)}, {kEqualize, 0.6f, 0}}},
      {{{kEqualize, 0.0f, 0}, {kEqualize, 0.8f, 0}}},
      {{{kInvert, 0.6f, 0}, {kEqualize, 1.0f, 0}}},
      {{{kColor, 0.6f, color(4)}, {kContrast, 1.0f, color(8)}}},
      {{{kRotate, 0.8f, turn(8)}, {kColor, 1.0f, color(2)}}},
      {{{kColor, 0.8f, color(8)}, {kSolarize, 0.8f, threshold(7)}}},
      {{{kSharpness, 0.4f, color(7)}, {kInvert, 0.6f, 0}}},
      {{{kShearX, 0.6f, 0.3 * 5 / 9}, {kEqualize, 1.0f, 0}}},
      {{{kColor, 0.4f, color(0)}, {kEqualize, 0.6f, 0}}},
      {{{kEqualize, 0.4f, 0}, {kSolarize, 0.2f, threshold(4)}}},
      {{{kSolarize, 0.6f, threshold(5)}, {kAutoContrast, 0.6f, 0}}},
      {{{kInvert, 0.6f, 0}, {kEqualize, 1.0f, 0}}},
      {{{kColor, 0.6f, color(4)}, {kContrast, 1.0f, color(8)}}},
      {{{kEqualize, 0.8f, 0}, {kEqualize, 0.6f, 0}}},
  };
}

TEST(ImageNetPolicy, DrawsTheWordsThatItsHeaderSays) {
  const auto pairs = ImageNetPairs();
  ASSERT_EQ(pairs.size(), 25u);
  std::vector<int> seen(25);
  for (uint64_t record = 0; record < 600; ++record) {
    RandomStream random = Stream(record);
    RandomStream words = Stream(record);
    const AutoAugmentOptions options{.policy = AugmentPolicy::kImageNet};
    const DrawnTransforms drawn = DrawTransforms(options, 662, 331, random);
    const uint64_t pair = words.Below(25);
    ++seen[pair];
    size_t i = 0;
    for (const PolicyStep& step : pairs[pair]) {
      if (words.NextFloat() >= step.probability) continue;
      const bool negative = HasSign(step.transform) && words.NextFloat() < 0.5f;
      ASSERT_LT(i, drawn.size()) << record;
      ASSERT_EQ(drawn[i].transform, step.transform) << record;
      ASSERT_NEAR(drawn[i].magnitude, negative ? -step.magnitude : step.magnitude, 1e-9) << record;
      ASSERT_EQ(std::signbit(drawn[i].magnitude), negative) << record;
      ++i;
    }
    ASSERT_EQ(i, drawn.size()) << record;
    ASSERT_NO_FATAL_FAILURE(ExpectSamePlace(random, words, record));
  }
  for (size_t pair = 0; pair < seen.size(); ++pair) EXPECT_GT(seen[pair], 0) << pair;
}

TEST(AutoAugment, OtherFieldsAndOptionsAreNamed) {
  const auto error = [](const AutoAugmentOptions& options) {
    return MakeAutoAugment(options, "a").status();
  };
  EXPECT_MESSAGE(error({.num_ops = 0}));
  EXPECT_MESSAGE(error({.magnitude = 31}));
  EXPECT_MESSAGE(error({.magnitude = 0, .num_magnitude_bins = 1}));
  EXPECT_MESSAGE(error({.fill = NAN}));
  auto op = MakeAutoAugment({}, "a");
  ASSERT_TRUE(op.ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kF32, Shape{4, 4, 3}}})).ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kU8, Shape{4, 4, 4}}})).ok());
  const Value empty = MakeValue(DType::kU8, Shape{0, 4, 3}, std::vector<uint8_t>());
  EXPECT_TRUE(ApplyTo(std::move(op), empty) == empty);
}

}  // namespace
}  // namespace millrace::augment
