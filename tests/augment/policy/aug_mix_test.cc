#include "augment/aug_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "augment/batch_mixing.h"
#include "augment/policy/aug_mix.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Fixture;
using testing::MakeValue;
using testing::Value;

RandomStream Stream(uint64_t record) {
  return RandomStream(RandomKey{.seed = 1, .op = HashName("mix"), .record = record});
}

Value Mixed(const DrawnMix& drawn, const Value& in, bool bilinear, uint8_t fill) {
  RunArena arena;
  const ColorImage view{in.as<uint8_t>().data(), in.shape[0], in.shape[1], in.shape[2]};
  std::vector<uint8_t> out(in.bytes.size());
  ApplyMix(drawn, view, bilinear, fill, MixScratch(arena, view.size()), out.data());
  return MakeValue(DType::kU8, in.shape, out);
}

// The weights and transforms of scripts/make_augment_fixtures.py.
TEST(AugMix, ChainsAreMixedAsTorchvisionDoes) {
  DrawnMix drawn;
  drawn.own_weight = 0.375f;
  drawn.chains = {
      {0.25f, {{Transform::kShearX, 0.06}, {Transform::kPosterize, 4}}},
      {0.2f, {{Transform::kRotate, -6.5}}},
      {0.175f,
       {{Transform::kEqualize, 0}, {Transform::kColor, 0.2}, {Transform::kTranslateY, -3}}}};
  EXPECT_TRUE(Mixed(drawn, Fixture("input/rgb"), true, 9) == Fixture("numpy/aug_mix"));
}

TEST(AugMix, IsWhatIsDrawnAndDrawsAreThoseTold) {
  const Value& in = Fixture("input/rgb");
  const AugMixOptions options{.severity = 5, .mixture_width = 2, .alpha = 0.5, .fill = 9};
  constexpr Transform kOrder[] = {
      Transform::kShearX,     Transform::kShearY,       Transform::kTranslateX,
      Transform::kTranslateY, Transform::kRotate,       Transform::kPosterize,
      Transform::kSolarize,   Transform::kAutoContrast, Transform::kEqualize,
      Transform::kBrightness, Transform::kColor,        Transform::kContrast,
      Transform::kSharpness};
  for (uint64_t record = 0; record < 30; ++record) {
    RandomStream random = Stream(record), words = Stream(record);
    const DrawnMix drawn = DrawMix(options, in.shape[0], in.shape[1], random);
    const double own = DrawSymmetricBeta(0.5, words);
    const double first = std::exp(DrawLogGamma(0.5, words));
    const double second = std::exp(DrawLogGamma(0.5, words));
    ASSERT_EQ(drawn.own_weight, static_cast<float>(own));
    ASSERT_NEAR(drawn.chains[0].weight, first / (first + second) * (1 - own), 1e-6);
    ASSERT_NEAR(drawn.chains[1].weight, second / (first + second) * (1 - own), 1e-6);
    for (const DrawnMix::Chain& chain : drawn.chains) {
      ASSERT_EQ(chain.transforms.size(), 1 + words.Below(3));
      for (const DrawnTransform& one : chain.transforms) {
        ASSERT_EQ(one.transform, kOrder[words.Below(13)]);
        const bool magnitude =
            one.transform != Transform::kAutoContrast && one.transform != Transform::kEqualize;
        const uint64_t bin = magnitude ? words.Below(5) : 0;
        const bool sign = magnitude && one.transform != Transform::kPosterize &&
                          one.transform != Transform::kSolarize;
        const double share = static_cast<double>(bin) / 9;
        const bool negative = sign && words.NextFloat() < 0.5f;
        if (one.transform == Transform::kRotate) {
          ASSERT_NEAR(one.magnitude, (negative ? -30 : 30) * share, 1e-9);
        } else if (one.transform == Transform::kTranslateX) {
          ASSERT_NEAR(one.magnitude, (negative ? -19 : 19) * share / 3, 1e-9);
        } else if (one.transform == Transform::kPosterize) {
          ASSERT_EQ(one.magnitude, std::nearbyint(4 - 4 * share));
        }
      }
    }
    ASSERT_TRUE(ApplyTo(MakeAugMix(options, "mix"), in, record) == Mixed(drawn, in, true, 9))
        << record;
  }
}

TEST(AugMix, FewOpsAndOneDepthAreKept) {
  const AugMixOptions options{.severity = 10, .chain_depth = 4, .all_ops = false};
  std::map<Transform, int> seen;
  double most_degrees = 0;
  for (uint64_t record = 0; record < 300; ++record) {
    RandomStream random = Stream(record);
    const DrawnMix drawn = DrawMix(options, 30, 30, random);
    ASSERT_EQ(drawn.chains.size(), 3u);
    float sum = drawn.own_weight;
    for (const DrawnMix::Chain& chain : drawn.chains) {
      ASSERT_EQ(chain.transforms.size(), 4u);
      sum += chain.weight;
      for (const DrawnTransform& one : chain.transforms) {
        ++seen[one.transform];
        if (one.transform == Transform::kRotate) {
          most_degrees = std::max(most_degrees, std::abs(one.magnitude));
        }
      }
    }
    ASSERT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_EQ(seen.count(Transform::kColor), 0u);
  EXPECT_NEAR(most_degrees, 30, 1e-9);
}

// Moments of Gamma(alpha, 1): alpha both. Of the smallest alpha only logarithms are there:
// E log g = digamma(alpha), about -1 / alpha.
TEST(AugMix, GammasHaveTheirMeanAndVariance) {
  constexpr int kDraws = 20000;
  for (const double alpha : {0.3, 1.0, 4.5}) {
    double sum = 0, squares = 0;
    for (uint64_t record = 0; record < kDraws; ++record) {
      RandomStream random = Stream(record);
      const double g = std::exp(DrawLogGamma(alpha, random));
      sum += g;
      squares += g * g;
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    EXPECT_NEAR(mean, alpha, 5 * std::sqrt(alpha / kDraws));
    // The fourth central moment is 3 a^2 + 6 a.
    EXPECT_NEAR(variance, alpha, 5 * std::sqrt((2 * alpha * alpha + 6 * alpha) / kDraws));
  }
  double sum = 0;
  for (uint64_t record = 0; record < kDraws; ++record) {
    RandomStream random = Stream(record);
    const double log_gamma = DrawLogGamma(0.001, random);
    ASSERT_TRUE(std::isfinite(log_gamma));
    sum += log_gamma;
  }
  EXPECT_NEAR(sum / kDraws, -1000.575, 5 * 1000 / std::sqrt(kDraws));
}

TEST(AugMix, SmallAlphasLeaveWeightsThatAreNumbers) {
  for (uint64_t record = 0; record < 2000; ++record) {
    RandomStream random = Stream(record);
    const DrawnMix drawn = DrawMix({.alpha = 0.001}, 8, 8, random);
    float sum = drawn.own_weight;
    for (const DrawnMix::Chain& chain : drawn.chains) sum += chain.weight;
    ASSERT_NEAR(sum, 1, 1e-6);
  }
}

// A run holds its results and room for one image, however many it has.
TEST(AugMix, ARunHasRoomForOneImageAtATime) {
  constexpr int64_t kRows = 16, kLargest = 64 * 64 * 3;
  const std::vector<uint8_t> pixels(kLargest, 5);
  std::vector<SampleId> ids;
  for (uint64_t r = 0; r < kRows; ++r) ids.push_back({0, r, 0});
  RunArena arena(/*chunk_bytes=*/4096);
  millrace::Run run(arena, 1, 0, ids);
  Column& column = run.Add("image", DType::kU8);
  for (int64_t r = 0; r < kRows; ++r) column.Set(r, pixels.data(), Shape{r == 9 ? 64 : 60, 64, 3});
  auto op = MakeAugMix({}, "a");
  ASSERT_TRUE(op.ok());
  testing::ResolveAndApply(**op, Schema({{"image", DType::kU8, Shape{Shape::kUnknown, 64, 3}}}),
                           run);
  for (int64_t r = 0; r < kRows; ++r) EXPECT_TRUE(run.ok(r)) << run.status(r);
  // A sum of floats and two images, and a result per row; without the first per row 7 would be
  // held.
  EXPECT_LT(arena.capacity_bytes(), (6 + kRows + 4) * kLargest);
}

TEST(AugMix, OtherFieldsAndOptionsAreNamed) {
  const auto error = [](const AugMixOptions& options) { return MakeAugMix(options, "a").status(); };
  EXPECT_MESSAGE(error({.severity = 11}));
  EXPECT_MESSAGE(error({.mixture_width = 0}));
  EXPECT_MESSAGE(error({.chain_depth = -1}));
  EXPECT_MESSAGE(error({.alpha = 0}));
  EXPECT_MESSAGE(error({.fill = NAN}));
  auto op = MakeAugMix({}, "a");
  ASSERT_TRUE(op.ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kF32, Shape{4, 4, 3}}})).ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kU8, Shape{4, 4, 2}}})).ok());
  const Value empty = MakeValue(DType::kU8, Shape{0, 4, 3}, std::vector<uint8_t>());
  EXPECT_TRUE(ApplyTo(std::move(op), empty) == empty);
}

}  // namespace
}  // namespace millrace::augment
