#include "cli/emulate/wait_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace millrace::cli {
namespace {

constexpr double kLongest = 1e18;  // nanoseconds

// Numbers below 32 have buckets of their own; for others the leading six bits count.
size_t BucketOf(uint64_t ns) {
  if (ns < 32) return ns;
  const int shift = std::bit_width(ns) - 6;
  return 32 * static_cast<size_t>(shift + 1) + (ns >> shift) - 32;
}

// The largest number of a bucket.
uint64_t EndOf(size_t bucket) {
  if (bucket < 32) return bucket;
  const size_t shift = bucket / 32 - 1;
  return ((bucket % 32 + 33) << shift) - 1;
}

}  // namespace

void WaitHistogram::Add(double seconds) {
  const double ns = std::clamp(seconds * 1e9, 0.0, kLongest);
  ++buckets_[BucketOf(static_cast<uint64_t>(ns))];
  ++count_;
  if (seconds > kNoticed) ++num_noticed_;
  max_ = std::max(max_, seconds);
}

double WaitHistogram::Quantile(double share) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen > 0 && seen >= wanted)
      return std::min(max_, static_cast<double>(EndOf(bucket)) * 1e-9);
  }
  return max_;
}

}  // namespace millrace::cli
