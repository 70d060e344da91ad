#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "augment/rows/kernels.h"
#include "augment/rows/log.h"

namespace millrace::augment {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class LogRowsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { UseRowKernelLevel(GetParam()); }
  void TearDown() override { UseRowKernelLevel(0); }
};

std::vector<double> Logs(std::vector<double> values, void (*row)(double*, int64_t)) {
  const size_t count = values.size();
  values.resize((count + kLogStep - 1) / kLogStep * kLogStep, 1);
  row(values.data(), static_cast<int64_t>(values.size()));
  values.resize(count);
  return values;
}
double Log(double x) { return Logs({x}, LogRow)[0]; }
double LogOnePlus(double x) { return Logs({x}, LogOnePlusRow)[0]; }

// How far `got` is from `expected`, in units of the last place of a float64.
double Ulps(double got, long double expected) {
  int exponent = 0;
  std::frexp(static_cast<double>(expected), &exponent);
  const long double ulp = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::abs(got - expected) / ulp);
}

TEST_P(LogRowsTest, AreWithinOneUlpOfLibm) {
  std::mt19937_64 random(1);
  std::vector<double> xs;
  std::vector<double> ys;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t bits = random();
    const double unit = static_cast<double>((bits >> 11) + 1) * 0x1p-53;
    const double small = std::ldexp(unit, -static_cast<int>(bits % 60));
    const double any = std::bit_cast<double>(bits & 0x7FEFFFFFFFFFFFFF);
    for (const double x : {any, 4 * unit, 1 + small, 1 - small / 2}) {
      if (x > 0) xs.push_back(x);
    }
    for (const double y : {any, 4 * unit, small, -small, unit * unit - 1}) {
      if (y > -1 && y != 0) ys.push_back(y);
    }
  }
  const std::vector<double> of_x = Logs(xs, LogRow);
  const std::vector<double> of_y = Logs(ys, LogOnePlusRow);
  double worst = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    worst = std::max(worst, Ulps(of_x[i], std::log(static_cast<long double>(xs[i]))));
  }
  EXPECT_LT(worst, 1);
  worst = 0;
  for (size_t i = 0; i < ys.size(); ++i) {
    worst = std::max(worst, Ulps(of_y[i], std::log1p(static_cast<long double>(ys[i]))));
  }
  EXPECT_LT(worst, 1);
}

TEST_P(LogRowsTest, EndsAndExactValues) {
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(LogOnePlus(0), 0);
  EXPECT_EQ(LogOnePlus(0x1p-1074), 0x1p-1074);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_EQ(LogOnePlus(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(kNaN)));
  EXPECT_TRUE(std::isnan(LogOnePlus(kNaN)));
}

// Of a sum that is exact both have the same bits: it does not matter which one whole numbers take.
TEST_P(LogRowsTest, OfWholeNumbersAreTheSameEitherWay) {
  std::vector<double> sums;
  std::vector<double> values;
  for (int64_t x = 0; x < 20'000; ++x) {
    values.push_back(static_cast<double>(x * x * 7));
    sums.push_back(values.back() + 1);
  }
  EXPECT_TRUE(Logs(sums, LogRow) == Logs(values, LogOnePlusRow));
}

// S-ROUND-1: these bits on every processor, whatever libm there takes its own from.
TEST_P(LogRowsTest, BitsAreThoseOfEveryProcessor) {
  EXPECT_EQ(Log(3), 0x1.193ea7aad030ap+0);
  EXPECT_EQ(Log(0x1p-1060), -0x1.6f5e359f105f9p+9);
  EXPECT_EQ(LogOnePlus(0.1), 0x1.8663f793c46c7p-4);
  std::vector<double> xs;
  std::vector<double> ys;
  uint64_t seed = 1;
  for (int i = 0; i < 100'000; ++i) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    const double x = static_cast<double>(seed >> 11) * 0x1p-40;
    xs.push_back(x + 0x1p-20);
    ys.push_back(x * 0x1p-12);
  }
  xs = Logs(xs, LogRow);
  ys = Logs(ys, LogOnePlusRow);
  uint64_t hash = 0;
  const auto mix = [&](double value) {
    hash = hash * 0x9E3779B97F4A7C15 + std::bit_cast<uint64_t>(value);
  };
  for (size_t i = 0; i < xs.size(); ++i) {
    mix(xs[i]);
    mix(ys[i]);
  }
  EXPECT_EQ(hash, 0x4a697d742b74014fu);
}

INSTANTIATE_TEST_SUITE_P(Levels, LogRowsTest, ::testing::ValuesIn(RowKernelLevels()),
                         [](const auto& level) { return RowKernelLevelName(level.param); });

}  // namespace
}  // namespace millrace::augment
