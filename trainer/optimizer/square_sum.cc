// With M the largest magnitude and n elements, adding and subtracting C = 1.5 * 2^e, where 2^e is
// over n * M^2, rounds a square to a multiple of u = 2^(e - 52). The n multiples add up to less
// than 2^53 u, so every sum of some of them is a double. What is left of each square is at most
// u / 2, and goes the same way with 2^e over n * u. The rest that is dropped is below
// n^3 M^2 2^-102.

#include "trainer/optimizer/square_sum.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace millrace::trainer {
namespace {

// C for n values of magnitude `bound` or less.
double RoundingConstant(double bound, size_t n) {
  int exponent = 0;
  std::frexp(bound * static_cast<double>(n), &exponent);
  return std::ldexp(1.5, exponent + 1);
}

}  // namespace

double LargestMagnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void AddSquares(std::span<const float> values, double largest, size_t count, double* sum) {
  const double coarse = RoundingConstant(largest * largest, count);
  const double unit = std::nextafter(coarse, HUGE_VAL) - coarse;
  const double fine = RoundingConstant(unit, count);
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> high = {};
  std::array<double, kLanes> low = {};
  const auto add = [&](size_t lane, float value) {
    const double square = double{value} * value;
    const double rounded = (square + coarse) - coarse;
    high[lane] += rounded;
    low[lane] += ((square - rounded) + fine) - fine;
  };
  size_t k = 0;
  for (; k + kLanes <= values.size(); k += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, values[k + lane]);
  }
  for (; k < values.size(); ++k) add(0, values[k]);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum[0] += high[lane];
    sum[1] += low[lane];
  }
}

double NormOf(const double* sum) { return std::sqrt(sum[0] + sum[1]); }

}  // namespace millrace::trainer
