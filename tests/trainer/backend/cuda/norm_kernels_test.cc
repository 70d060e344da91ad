// Batch norm against plain loops in float64.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"

namespace millrace::trainer::cuda {
namespace {

enum class Valid { kAll, kSome, kNone };

struct NormCase {
  int64_t rows = 1;
  int64_t pixels = 1;
  int64_t channels = 1;
  Valid valid = Valid::kAll;
  bool has_addend = false;
  bool has_relu = false;
  bool is_aligned = true;
  bool accumulates = false;  // both gradients
  bool keeps_dz = true;
  double mean = 0.3;
  double deviation = 1;
};

// A norm's tensors.
struct NormProblem {
  NormProblem(const NormCase& test_in, DType type)
      : test(test_in),
        count(static_cast<size_t>(test.rows * test.pixels * test.channels)),
        channels(static_cast<size_t>(test.channels)),
        valid(DType::kU8, static_cast<size_t>(test.rows)),
        x(Values(type, 1, test.mean, test.deviation)),
        addend(Values(type, 2, 0, 1)),
        y(Values(type, 3, 0, 0)),
        dy(Values(type, 4, 0, 1)),
        dz(Values(type, 5, 0, 1)),
        dx(Values(type, 6, 0, 1)),
        weights(DType::kF32, DrawnValues(channels, 7, 0.5, 2)),
        bias(DType::kF32, DrawnValues(channels, 8)),
        sums(DType::kF64, 1 + 2 * channels),
        moments(DType::kF32, 4 * channels),
        mean(DType::kF32, channels),
        variance(DType::kF32, channels),
        weights_gradient(DType::kF32, channels),
        bias_gradient(DType::kF32, channels),
        scratch(DType::kU8, HostKernels().scratch_bytes(test.rows, test.channels)) {
    for (size_t row = 0; row < valid.count(); ++row) {
      const bool is_valid =
          test.valid == Valid::kAll || (test.valid == Valid::kSome && row % 3 != 0);
      valid.Set(row, is_valid ? 1 : 0);
      if (is_valid) continue;
      // Padding counts for nothing, whatever is there.
      const size_t row_values = count / valid.count();
      for (size_t i = row * row_values; i < (row + 1) * row_values; ++i) {
        x.Set(i, std::numeric_limits<double>::quiet_NaN());
        dy.Set(i, std::numeric_limits<double>::quiet_NaN());
      }
    }
    args = {.type = type,
            .batch = {.rows = test.rows, .valid = valid.as<uint8_t>()},
            .row_pixels = test.pixels,
            .channels = test.channels,
            .epsilon = kEpsilon,
            .weights = weights.as<float>(),
            .bias = bias.as<float>(),
            .sums = sums.as<double>(),
            .moments = moments.as<float>(),
            .scratch = scratch.data(),
            .x = x.data(),
            .addend = test.has_addend ? addend.data() : nullptr,
            .has_relu = test.has_relu,
            .y = y.data(),
            .mean = mean.as<float>(),
            .variance = variance.as<float>(),
            .dy = dy.data(),
            .dz = test.keeps_dz ? dz.data() : nullptr,
            .accumulates_dz = test.accumulates,
            .dx = dx.data(),
            .accumulates_dx = test.accumulates,
            .weights_gradient = weights_gradient.as<float>(),
            .bias_gradient = bias_gradient.as<float>()};
  }

  KernelTensor Values(DType type, unsigned seed, double mean_of, double deviation) const {
    const double reach = std::sqrt(3.0) * deviation;  // of a uniform distribution
    return {type, DrawnValues(count, seed, mean_of - reach, mean_of + reach), test.is_aligned};
  }
  bool IsValid(size_t i) const { return valid.at(i / (count / valid.count())) != 0; }
  std::string Text() const {
    return absl::StrCat(test.rows, " x ", test.pixels, " x ", test.channels, ", valid ",
                        static_cast<int>(test.valid), test.has_addend ? ", addend" : "",
                        test.has_relu ? ", relu" : "", test.is_aligned ? "" : ", off",
                        test.accumulates ? ", accumulates" : "");
  }

  void Forward() {
    ASSERT_TRUE(HostKernels().norm_measure(nullptr, args).ok());
    ASSERT_TRUE(HostKernels().norm_apply(nullptr, args).ok());
  }
  void Backward() {
    ASSERT_TRUE(HostKernels().norm_backward_sums(nullptr, args).ok());
    ASSERT_TRUE(HostKernels().norm_backward_combine(nullptr, args).ok());
  }

  static constexpr double kEpsilon = 1e-5;
  NormCase test;
  size_t count;
  size_t channels;
  KernelTensor valid;
  KernelTensor x, addend, y, dy, dz, dx;
  KernelTensor weights, bias, sums, moments, mean, variance, weights_gradient, bias_gradient;
  KernelTensor scratch;
  NormArgs args;
};

// The same in float64, from the kernels' inputs.
struct NormReference {
  explicit NormReference(const NormProblem& problem)
      : channels(problem.channels),
        mean(channels, 0),
        squares(channels, 0),
        y(problem.count, 0),
        dz(problem.count, 0),
        dx(problem.count, 0),
        dz_sums(channels, 0),
        products(channels, 0) {
    ForEach(problem, [&](size_t i, size_t c) { mean[c] += problem.x.at(i); });
    n = Count(problem);
    for (double& value : mean) value /= std::max(1.0, n);
    ForEach(problem, [&](size_t i, size_t c) {
      squares[c] += (problem.x.at(i) - mean[c]) * (problem.x.at(i) - mean[c]);
    });
    ForEach(problem, [&](size_t i, size_t c) { y[i] = NormalOf(problem, i, c); });
    ForEach(problem, [&](size_t i, size_t c) {
      // Behind the ReLU as the kernel sees it: of the stored result.
      dz[i] = !problem.test.has_relu || problem.y.at(i) > 0 ? problem.dy.at(i) : 0;
      dz_sums[c] += dz[i];
      products[c] += dz[i] * (problem.x.at(i) - mean[c]);
    });
    ForEach(problem, [&](size_t i, size_t c) {
      const double inverse = Inverse(c);
      dx[i] = problem.weights.at(c) * inverse *
              (dz[i] - dz_sums[c] / n -
               (problem.x.at(i) - mean[c]) * inverse * inverse * products[c] / n);
    });
  }

  template <typename Visit>
  static void ForEach(const NormProblem& problem, const Visit& visit) {
    for (size_t i = 0; i < problem.count; ++i) {
      if (problem.IsValid(i)) visit(i, i % problem.channels);
    }
  }
  static double Count(const NormProblem& problem) {
    double all = 0;
    ForEach(problem, [&](size_t, size_t c) { all += c == 0 ? 1 : 0; });
    return all;
  }
  double Inverse(size_t c) const {
    return 1 / std::sqrt(squares[c] / std::max(1.0, n) + NormProblem::kEpsilon);
  }
  double NormalOf(const NormProblem& problem, size_t i, size_t c) const {
    double value =
        (problem.x.at(i) - mean[c]) * Inverse(c) * problem.weights.at(c) + problem.bias.at(c);
    if (problem.test.has_addend) value += problem.addend.at(i);
    return problem.test.has_relu ? std::max(value, 0.0) : value;
  }

  size_t channels;
  double n = 0;
  std::vector<double> mean, squares, y, dz, dx, dz_sums, products;
};

// All kinds of sizes, and each setting at least once with each.
std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  for (const int64_t channels : {1, 3, 8, 33, 64, 130}) {
    for (const auto& [rows, pixels] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 7}, {7, 1}, {5, 49}, {4, 300}}) {
      const auto turn = static_cast<unsigned>(cases.size());
      NormCase test = {.rows = rows, .pixels = pixels, .channels = channels};
      test.valid = rows > 1 ? static_cast<Valid>(turn % 3) : Valid::kAll;
      test.has_relu = turn % 2 == 0;
      test.has_addend = turn % 5 < 2;
      test.is_aligned = turn % 4 != 3;
      test.accumulates = turn % 7 < 3;
      cases.push_back(test);
      test.has_relu = !test.has_relu;
      test.valid = Valid::kAll;
      test.accumulates = !test.accumulates;
      cases.push_back(test);
    }
  }
  cases.push_back({.rows = 1, .pixels = 3, .channels = 16, .valid = Valid::kNone});
  cases.push_back({.rows = 3, .pixels = 3000, .channels = 8, .valid = Valid::kSome});
  return cases;
}

class NormKernelsTest : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, NormKernelsTest, testing::ValuesIn(kFloatTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

// float32's error in a sum is that of its roundings, a few of which in sequence make a partial sum.
constexpr double kSumError = 64 * 0x1p-24;

TEST_P(NormKernelsTest, MomentsAreThoseOfTheValidRows) {
  for (const NormCase& test : NormCases()) {
    NormProblem problem(test, GetParam());
    problem.Forward();
    const NormReference expected(problem);
    ASSERT_EQ(problem.sums.at(0), expected.n) << problem.Text();
    const double unbiased = expected.n > 1 ? expected.n / (expected.n - 1) : 1;
    for (size_t c = 0; c < problem.channels; ++c) {
      const double squares = expected.squares[c];
      ASSERT_NEAR(problem.sums.at(1 + c), expected.mean[c], kSumError) << problem.Text();
      ASSERT_NEAR(problem.sums.at(1 + problem.channels + c), squares,
                  kSumError * (squares + expected.n * 0x1p-20))
          << problem.Text();
      const double variance = squares / std::max(1.0, expected.n);
      ASSERT_NEAR(problem.mean.at(c), expected.mean[c], kSumError) << problem.Text();
      ASSERT_NEAR(problem.variance.at(c), variance * unbiased, kSumError * (variance + 1e-6))
          << problem.Text();
    }
  }
}

TEST_P(NormKernelsTest, ResultsAreNormalised) {
  for (const NormCase& test : NormCases()) {
    NormProblem problem(test, GetParam());
    problem.Forward();
    const NormReference expected(problem);
    for (size_t i = 0; i < problem.count; ++i) {
      if (!problem.IsValid(i)) continue;
      // Where all values of a channel are equal, the inverse deviation is 300 times the error.
      ASSERT_NEAR(problem.y.at(i), expected.y[i],
                  UnitOf(GetParam()) * std::abs(expected.y[i]) + 64 * 0x1p-20)
          << problem.Text() << " " << i;
    }
  }
}

TEST_P(NormKernelsTest, GradientsAreThoseOfTheFormula) {
  for (const NormCase& test : NormCases()) {
    NormProblem problem(test, GetParam());
    problem.Forward();
    const KernelTensor dz_before = problem.dz;
    const KernelTensor dx_before = problem.dx;
    const float factor = 0.25;
    problem.args.factor = &factor;
    problem.Backward();
    const NormReference expected(problem);
    ASSERT_EQ(problem.sums.at(0), expected.n) << problem.Text();
    const double size = std::sqrt(expected.n + 1);  // of sums of n values
    for (size_t c = 0; c < problem.channels; ++c) {
      ASSERT_NEAR(problem.bias_gradient.at(c), expected.dz_sums[c] * factor, kSumError * size)
          << problem.Text();
      ASSERT_NEAR(problem.weights_gradient.at(c),
                  expected.products[c] * expected.Inverse(c) * factor,
                  kSumError * size * (1 + expected.Inverse(c)))
          << problem.Text();
    }
    for (size_t i = 0; i < problem.count; ++i) {
      const double dz = (test.accumulates ? dz_before.at(i) : 0) + expected.dz[i];
      const double dx = (test.accumulates ? dx_before.at(i) : 0) + expected.dx[i];
      const double unit = UnitOf(GetParam());
      ASSERT_NEAR(problem.dz.at(i), dz, unit * std::abs(dz) + 0x1p-22) << problem.Text() << i;
      ASSERT_NEAR(problem.dx.at(i), dx,
                  unit * std::abs(dx) + kSumError * (4 + expected.Inverse(i % problem.channels)))
          << problem.Text() << " " << i;
    }
  }
}

// The mask from x is that from the result.
TEST_P(NormKernelsTest, AReluWithoutAnAddendNeedsNoResult) {
  for (const int64_t channels : {3, 64}) {
    NormProblem first({.rows = 5, .pixels = 49, .channels = channels, .has_relu = true},
                      GetParam());
    first.Forward();
    first.Backward();
    NormProblem other({.rows = 5, .pixels = 49, .channels = channels, .has_relu = true},
                      GetParam());
    other.Forward();
    other.args.y = nullptr;
    other.Backward();
    EXPECT_EQ(other.dx.bytes(), first.dx.bytes());
    EXPECT_EQ(other.dz.bytes(), first.dz.bytes());
    EXPECT_EQ(other.weights_gradient.bytes(), first.weights_gradient.bytes());
  }
}

// dz may take dy's place, and dx too: each thread reads its values before it writes them.
TEST_P(NormKernelsTest, GradientsMayReplaceTheOneTheyAreMadeOf) {
  NormCase test = {.rows = 6, .pixels = 49, .channels = 64, .valid = Valid::kSome};
  test.has_relu = true;
  NormProblem first(test, GetParam());
  first.Forward();
  first.Backward();
  NormProblem second(test, GetParam());
  second.Forward();
  second.args.dz = second.args.dx = second.dy.data();
  second.Backward();
  EXPECT_EQ(second.dy.bytes(), first.dx.bytes());
}

// With a mean of 100,000 deviations, sums of squares alone would have lost all of the variance.
TEST(NormKernelsTest, AMeanFarFromZeroCostsNoBits) {
  for (const int64_t channels : {5, 32}) {
    NormCase test = {.rows = 8, .pixels = 500, .channels = channels};
    test.mean = 1000;
    test.deviation = 0.01;
    NormProblem problem(test, DType::kF32);
    problem.Forward();
    const KernelTensor sums = problem.sums;
    problem.Backward();
    const NormReference expected(problem);
    for (size_t c = 0; c < problem.channels; ++c) {
      ASSERT_NEAR(sums.at(1 + c), expected.mean[c], 1e-7);
      ASSERT_NEAR(sums.at(1 + problem.channels + c) / expected.squares[c], 1, 1e-5);
    }
    for (size_t i = 0; i < problem.count; ++i) {
      ASSERT_NEAR(problem.y.at(i), expected.y[i], 3e-5) << i;
      ASSERT_NEAR(problem.dx.at(i), expected.dx[i], 1e-3) << i;  // of values of about 100
    }
  }
}

// Moments of two ranks that Chan's rule put together are those of one with all rows.
TEST(NormKernelsTest, SumsOfRanksMakeThoseOfTheBatch) {
  const NormCase whole_case = {.rows = 8, .pixels = 20, .channels = 8};
  NormProblem whole(whole_case, DType::kF32);
  whole.Forward();
  NormProblem half(whole_case, DType::kF32);
  std::vector<std::vector<double>> sums;
  for (const int64_t begin : {0, 3}) {
    half.args.batch.rows = begin == 0 ? 3 : 5;
    half.args.x = half.x.as<float>() + begin * 20 * 8;
    ASSERT_TRUE(HostKernels().norm_measure(nullptr, half.args).ok());
    sums.push_back(half.sums.values());
  }
  const double n = sums[0][0] + sums[1][0];
  for (size_t c = 0; c < 8; ++c) {
    const double difference = sums[1][1 + c] - sums[0][1 + c];
    half.sums.Set(1 + c, sums[0][1 + c] + difference * sums[1][0] / n);
    half.sums.Set(9 + c, sums[0][9 + c] + sums[1][9 + c] +
                             difference * difference * sums[0][0] * sums[1][0] / n);
  }
  half.sums.Set(0, n);
  ASSERT_TRUE(HostKernels().norm_moments(nullptr, half.args).ok());
  for (size_t c = 0; c < 16; ++c) {
    EXPECT_NEAR(half.moments.at(c), whole.moments.at(c), 1e-6) << c;
  }
}

TEST(NormKernelsTest, MomentsMadeLaterHaveTheSameBits) {
  const NormCase test = {.rows = 4, .pixels = 7, .channels = 16};
  NormProblem at_once(test, DType::kF32);
  ASSERT_TRUE(HostKernels().norm_measure(nullptr, at_once.args).ok());
  NormProblem later(test, DType::kF32);
  NormArgs args = later.args;
  args.moments = nullptr;
  ASSERT_TRUE(HostKernels().norm_measure(nullptr, args).ok());
  EXPECT_NE(later.moments.bytes(), at_once.moments.bytes());
  ASSERT_TRUE(HostKernels().norm_moments(nullptr, later.args).ok());
  EXPECT_EQ(later.moments.bytes(), at_once.moments.bytes());
  EXPECT_EQ(later.mean.bytes(), at_once.mean.bytes());
  EXPECT_EQ(later.variance.bytes(), at_once.variance.bytes());
}

TEST(NormKernelsTest, AnEvaluationTakesTheRunningStatistics) {
  NormProblem problem({.rows = 2, .pixels = 3, .channels = 5}, DType::kF32);
  for (size_t c = 0; c < 5; ++c) {
    problem.mean.Set(c, 0.1 * static_cast<double>(c));
    problem.variance.Set(c, 1 + static_cast<double>(c));
  }
  ASSERT_TRUE(HostKernels().norm_moments_of_running(nullptr, problem.args).ok());
  ASSERT_TRUE(HostKernels().norm_apply(nullptr, problem.args).ok());
  for (size_t i = 0; i < problem.count; ++i) {
    const size_t c = i % 5;
    const double expected = (problem.x.at(i) - problem.mean.at(c)) /
                                std::sqrt(problem.variance.at(c) + NormProblem::kEpsilon) *
                                problem.weights.at(c) +
                            problem.bias.at(c);
    EXPECT_NEAR(problem.y.at(i), expected, 1e-6) << i;
  }
}

TEST(NormKernelsTest, ANotANumberOfAValidRowIsSeen) {
  NormProblem problem({.rows = 2, .pixels = 3, .channels = 4, .has_relu = true}, DType::kF32);
  problem.x.Set(5, std::numeric_limits<double>::quiet_NaN());
  problem.Forward();
  EXPECT_TRUE(std::isnan(problem.mean.at(1)));
  EXPECT_TRUE(std::isnan(problem.variance.at(1)));
  EXPECT_TRUE(std::isnan(problem.y.at(1)));
  EXPECT_FALSE(std::isnan(problem.y.at(0)));
}

}  // namespace
}  // namespace millrace::trainer::cuda
