#include "cli/tune/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace millrace::cli {
namespace {

// Student's t of 99 %, two-sided, by degrees of freedom from 1. A search compares so many settings
// that with 95 % one of them would often seem better by chance.
constexpr double kStudent[] = {63.66, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17};

double StudentOf(size_t turns) { return kStudent[std::min(turns - 1, std::size(kStudent)) - 1]; }

}  // namespace

double Turns::best() const { return rates_.empty() ? 0 : *std::ranges::max_element(rates_); }

double Turns::spread() const {
  const double most = best();
  return most > 0 ? (most - *std::ranges::min_element(rates_)) / 2 / most : 0;
}

Comparison Compare(const Turns& before, const Turns& after) {
  const auto turns = static_cast<size_t>(before.size());
  const auto count = static_cast<double>(turns);
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < turns; ++i) {
    const double ratio = std::log(after.rates()[i] / before.rates()[i]);
    sum += ratio;
    squares += ratio * ratio;
  }
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean) * count / (count - 1);
  const double error = std::sqrt(variance / count);
  return {std::exp(mean) - 1, error, StudentOf(turns) * error};
}

bool IsFaster(const Comparison& comparison) {
  return comparison.gain >= kWorthwhile && comparison.gain > comparison.noise;
}

bool MayBeFaster(const Comparison& comparison) {
  return comparison.gain + 2 * comparison.error >= kWorthwhile;
}

bool IsAsFast(const Comparison& comparison) {
  return comparison.gain >= -kEqual && comparison.noise < kWorthwhile;
}

bool MayBeAsFast(const Comparison& comparison) {
  return comparison.gain + 2 * comparison.error >= -kEqual;
}

}  // namespace millrace::cli
