#include "cli/emulate/wait_histogram.h"

#include <algorithm>

namespace millrace::cli {
namespace {

constexpr double kLongest = 1e18;  // nanoseconds

}  // namespace

void WaitHistogram::Add(double seconds) {
  nanoseconds_.Add(static_cast<uint64_t>(std::clamp(seconds * 1e9, 0.0, kLongest)));
  if (seconds > kNoticed) ++num_noticed_;
  max_ = std::max(max_, seconds);
}

double WaitHistogram::Quantile(double fraction) const {
  const uint64_t nanoseconds = nanoseconds_.Quantile(fraction);
  return nanoseconds == nanoseconds_.max() ? max_ : static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace millrace::cli
