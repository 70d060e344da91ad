#include "augment/batch_mixing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/half.h"
#include "tests/augment/fixtures.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using ::testing::ElementsAre;

RandomStream Stream(uint64_t record) {
  return RandomStream(RandomKey{.seed = 1, .op = HashName("mixup"), .record = record});
}

// --- Beta ---

// The largest distance of the empirical distribution from `cdf`, times sqrt(n): Kolmogorov's.
template <typename Cdf>
double Kolmogorov(std::vector<double> values, const Cdf& cdf) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]);
    most = std::max({most, std::abs(expected - static_cast<double>(i) / n),
                     std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return most * std::sqrt(n);
}

std::vector<double> Betas(double alpha) {
  std::vector<double> values;
  for (uint64_t record = 0; record < 20000; ++record) {
    RandomStream random = Stream(record);
    values.push_back(DrawSymmetricBeta(alpha, random));
  }
  return values;
}

constexpr double kRarely = 2.3;  // Kolmogorov's statistic is above it once in 2 * 10^4 seeds

// Distributions in closed form.
TEST(SymmetricBeta, HasItsDistributionAndAnotherWouldBeSeen) {
  const auto uniform = [](double x) { return x; };
  const auto arcsine = [](double x) {
    return 2 / std::numbers::pi * std::asin(std::sqrt(std::clamp(x, 0.0, 1.0)));
  };
  const auto cubic = [](double x) { return x * x * (3 - 2 * x); };
  EXPECT_LT(Kolmogorov(Betas(1), uniform), kRarely);
  EXPECT_LT(Kolmogorov(Betas(0.5), arcsine), kRarely);
  EXPECT_LT(Kolmogorov(Betas(2), cubic), kRarely);
  EXPECT_GT(Kolmogorov(Betas(1.1), uniform), kRarely);
  EXPECT_GT(Kolmogorov(Betas(0.5), uniform), kRarely);
}

TEST(SymmetricBeta, MomentsHoldForAnyAlphaAndEveryValueIsAShare) {
  for (const double alpha : {0.001, 0.05, 0.2, 0.4, 8.0, 1000.0}) {
    double sum = 0, squares = 0;
    const std::vector<double> values = Betas(alpha);
    for (const double value : values) {
      ASSERT_TRUE(value >= 0 && value <= 1) << value;
      sum += value - 0.5;
      squares += (value - 0.5) * (value - 0.5);
    }
    const auto n = static_cast<double>(values.size());
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
    // The kurtosis is below 3.
    EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2 / n));
  }
}

// --- what is drawn ---

TEST(Mixing, DrawsAreThoseTold) {
  BatchMixingOptions options{.kind = BatchMixingKind::kEither,
                             .mixup_alpha = 0.2,
                             .cutmix_alpha = 0.7,
                             .probability = 0.8f,
                             .switch_probability = 0.3f};
  int none = 0, boxes = 0, blends = 0;
  for (uint64_t record = 0; record < 500; ++record) {
    RandomStream random = Stream(record), words = Stream(record);
    const auto mixture = DrawMixture(options, Shape{40, 30, 3}, random);
    if (words.NextFloat() >= 0.8f) {
      ASSERT_FALSE(mixture.has_value());
      ++none;
      continue;
    }
    ASSERT_TRUE(mixture.has_value());
    const bool cuts = words.NextFloat() < 0.3f;
    ASSERT_EQ(mixture->cuts, cuts);
    const double lambda = static_cast<float>(DrawSymmetricBeta(cuts ? 0.7 : 0.2, words));
    ++(cuts ? boxes : blends);
    if (!cuts) {
      ASSERT_EQ(mixture->kept, static_cast<float>(lambda));
      ASSERT_EQ(mixture->others, static_cast<float>(1 - lambda));
      continue;
    }
    const auto x = static_cast<int64_t>(words.Below(30)), y = static_cast<int64_t>(words.Below(40));
    const double half = 0.5 * std::sqrt(1 - lambda);
    const auto w = static_cast<int64_t>(half * 30), h = static_cast<int64_t>(half * 40);
    ASSERT_EQ(mixture->left, std::max<int64_t>(x - w, 0));
    ASSERT_EQ(mixture->right, std::min<int64_t>(x + w, 30));
    ASSERT_EQ(mixture->top, std::max<int64_t>(y - h, 0));
    ASSERT_EQ(mixture->bottom, std::min<int64_t>(y + h, 40));
    const auto area =
        static_cast<double>((mixture->right - mixture->left) * (mixture->bottom - mixture->top));
    ASSERT_EQ(mixture->kept, static_cast<float>(1 - area / 1200));
  }
  EXPECT_GT(none, 50);
  EXPECT_GT(boxes, 50);
  EXPECT_GT(blends, 150);
  options.channels_first = true;
  options.kind = BatchMixingKind::kCutmix;
  RandomStream random = Stream(3);
  EXPECT_LE(DrawMixture(options, Shape{3, 400, 30}, random)->right, 30);
}

// --- what is made of it ---

template <typename T>
std::vector<T> Mix(const BatchMixingOptions& options, const Mixture& mixture, DType dtype,
                   const Shape& shape, std::vector<T> values) {
  const size_t bytes = static_cast<size_t>(shape.num_elements()) * sizeof(T);
  std::vector<std::byte*> rows;
  for (size_t at = 0; at < values.size() * sizeof(T); at += bytes) {
    rows.push_back(reinterpret_cast<std::byte*>(values.data()) + at);
  }
  std::vector<std::byte> spare(bytes);
  MixImages(options, mixture, rows, dtype, shape, spare.data());
  return values;
}

// The rows and draws of scripts/make_augment_fixtures.py.
class TorchvisionsFormulas : public ::testing::Test {
 protected:
  TorchvisionsFormulas() {
    const auto floats = testing::Fixture("input/float").as<float>();
    for (const float value : floats) rows_.push_back(value);
    for (const float value : floats) rows_.push_back(100 - value);
    for (const float value : floats) rows_.push_back(value * 0.5f);
  }

  void Expect(const Mixture& mixture, const std::string& images, const std::string& of_labels) {
    const BatchMixingOptions options{.kind = BatchMixingKind::kEither};
    const auto of = [](const std::string& name) {
      const auto values = testing::Fixture(name).as<float>();
      return std::vector<float>(values.begin(), values.end());
    };
    EXPECT_EQ(Mix<float>(options, mixture, DType::kF32, {29, 19, 3}, rows_), of(images));
    std::vector<float> labels = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    auto* const data = reinterpret_cast<std::byte*>(labels.data());
    std::vector<std::byte> spare(16);
    MixLabels(mixture, std::vector<std::byte*>{data, data + 16, data + 32}, 4, spare.data());
    EXPECT_EQ(labels, of(of_labels));
  }

  std::vector<float> rows_;
};

TEST_F(TorchvisionsFormulas, Mixup) {
  Expect({.kept = 0.3f, .others = static_cast<float>(1 - 0.3)}, "numpy/mixup",
         "numpy/mixup_labels");
}

TEST_F(TorchvisionsFormulas, Cutmix) {
  Expect(BoxAround(2, 11, 0.3, 29, 19), "numpy/cutmix_0", "numpy/cutmix_labels_0");
  Expect(BoxAround(9, 14, 0.85, 29, 19), "numpy/cutmix_1", "numpy/cutmix_labels_1");
  Expect(BoxAround(18, 28, 0.05, 29, 19), "numpy/cutmix_2", "numpy/cutmix_labels_2");
}

const Mixture kThird{.kept = 0.25f, .others = 0.75f};

// torch's roll(1, 0): row 0 takes of the last row.
TEST(Mixing, RowsAreBlendedWithTheOneBeforeAsItWas) {
  EXPECT_THAT(Mix<float>({}, kThird, DType::kF32, {1}, {4, 8, 16}), ElementsAre(13, 5, 10));
  EXPECT_THAT(Mix<float>({}, kThird, DType::kF32, {2}, {4, 40, 8, 80}), ElementsAre(7, 70, 5, 50));
  EXPECT_THAT(Mix<float>({}, kThird, DType::kF32, {1}, {4}), ElementsAre(4));
  EXPECT_TRUE(Mix<float>({}, kThird, DType::kF32, {1}, {}).empty());
}

// S-ROUND-1: products and sums in float32, then one rounding to the dtype.
TEST(Mixing, EveryDtypeIsRoundedOnce) {
  EXPECT_THAT(Mix<uint8_t>({}, kThird, DType::kU8, {1}, {255, 254}), ElementsAre(254, 255));
  EXPECT_THAT(Mix<uint8_t>({}, {.kept = 0.5f, .others = 0.5f}, DType::kU8, {1}, {1, 2}),
              ElementsAre(2, 2));  // 1.5
  EXPECT_THAT(Mix<uint8_t>({}, {.kept = 0.5f, .others = 0.5f}, DType::kU8, {1}, {2, 3}),
              ElementsAre(2, 2));  // 2.5
  const auto half = [](float value) { return ToHalf(value).bits; };
  EXPECT_THAT(Mix<uint16_t>({}, kThird, DType::kF16, {1}, {half(1), half(2.001f)}),
              ElementsAre(half(0.75f * ToFloat(ToHalf(2.001f)) + 0.25f),
                          half(0.75f + 0.25f * ToFloat(ToHalf(2.001f)))));
  const auto brain = [](float value) { return ToBFloat(value).bits; };
  EXPECT_THAT(Mix<uint16_t>({}, kThird, DType::kBF16, {1}, {brain(1), brain(3)}),
              ElementsAre(brain(2.5f), brain(1.5f)));
  const float kept = 0.3f, others = static_cast<float>(1 - double{kept});
  const float a = 0.1f, b = 0.7f;
  EXPECT_THAT(Mix<float>({}, {.kept = kept, .others = others}, DType::kF32, {1}, {a, b}),
              ElementsAre(b * others + a * kept, a * others + b * kept));
}

TEST(Mixing, ABoxIsTakenFromTheRowBefore) {
  const Mixture box{.cuts = true, .top = 0, .bottom = 2, .left = 1, .right = 2};
  // 2 x 3 pixels of two channels.
  std::vector<uint8_t> values(24);
  for (size_t i = 0; i < 24; ++i) values[i] = static_cast<uint8_t>(i);
  EXPECT_THAT(Mix<uint8_t>({}, box, DType::kU8, {2, 3, 2}, values),
              ElementsAre(0, 1, 14, 15, 4, 5, 6, 7, 20, 21, 10, 11,  //
                          12, 13, 2, 3, 16, 17, 18, 19, 8, 9, 22, 23));
  // 2 channels of 2 x 3 pixels.
  EXPECT_THAT(Mix<uint8_t>({.channels_first = true}, box, DType::kU8, {2, 2, 3}, values),
              ElementsAre(0, 13, 2, 3, 16, 5, 6, 19, 8, 9, 22, 11,  //
                          12, 1, 14, 15, 4, 17, 18, 7, 20, 21, 10, 23));
}

TEST(Mixing, LabelsAreBlendedWhateverImagesAre) {
  std::vector<float> labels = {1, 0, 0, 0, 1, 0};
  std::byte* const data = reinterpret_cast<std::byte*>(labels.data());
  std::vector<std::byte> spare(12);
  MixLabels({.cuts = true, .kept = 0.25f, .others = 0.75f},
            std::vector<std::byte*>{data, data + 12}, 3, spare.data());
  EXPECT_THAT(labels, ElementsAre(0.25f, 0.75f, 0, 0.75f, 0.25f, 0));
}

TEST(Mixing, OtherFieldsAreNamed) {
  const Field image{"image", DType::kF32, Shape{4, 4, 3}}, label{"label", DType::kF32, Shape{10}};
  const auto error = [](BatchMixingKind kind, std::vector<Field> fields) {
    return CheckMixedFields({.kind = kind}, Schema(std::move(fields)));
  };
  EXPECT_TRUE(error(BatchMixingKind::kCutmix, {image, label}).ok());
  EXPECT_TRUE(error(BatchMixingKind::kMixup, {{"image", DType::kU8, Shape{7}}, label}).ok());
  EXPECT_MESSAGE(error(BatchMixingKind::kCutmix, {{"image", DType::kU8, Shape{7}}, label}));
  EXPECT_MESSAGE(error(BatchMixingKind::kMixup, {{"image", DType::kI64, Shape{4, 4, 3}}, label}));
  EXPECT_MESSAGE(
      error(BatchMixingKind::kMixup, {{"image", DType::kU8, Shape{Shape::kUnknown, 4, 3}}, label}));
  EXPECT_MESSAGE(error(BatchMixingKind::kMixup, {image, {"label", DType::kI64, {}}}));
  EXPECT_MESSAGE(error(BatchMixingKind::kEither, {image}));
}

}  // namespace
}  // namespace millrace::augment
