#include "cli/emulate/wait_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace millrace::cli {
namespace {

constexpr double kLongest = 1e18;  // nanoseconds

// Numbers below 32 have bins of their own; for others the leading six bits count.
size_t BinOf(uint64_t ns) {
  if (ns < 32) return ns;
  const int shift = std::bit_width(ns) - 6;
  return 32 * static_cast<size_t>(shift + 1) + (ns >> shift) - 32;
}

// The largest number of a bin.
uint64_t EndOf(size_t bin) {
  if (bin < 32) return bin;
  const size_t shift = bin / 32 - 1;
  return ((bin % 32 + 33) << shift) - 1;
}

}  // namespace

void WaitHistogram::Add(double seconds) {
  const double ns = std::clamp(seconds * 1e9, 0.0, kLongest);
  ++bins_[BinOf(static_cast<uint64_t>(ns))];
  ++count_;
  if (seconds > kNoticed) ++num_noticed_;
  max_ = std::max(max_, seconds);
}

double WaitHistogram::Quantile(double fraction) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t bin = 0; bin < bins_.size(); ++bin) {
    seen += bins_[bin];
    if (seen > 0 && seen >= wanted) return std::min(max_, static_cast<double>(EndOf(bin)) * 1e-9);
  }
  return max_;
}

}  // namespace millrace::cli
