#ifndef MILLRACE_BASE_LOG_HISTOGRAM_H_
#define MILLRACE_BASE_LOG_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Counts of whole numbers, such as nanoseconds, in `kPerPower` bins for each power of two: any
// number of them takes the same memory, and a quantile is at most 1/kPerPower too large. Numbers
// of 2^kPowers or more count as the largest below. A value type.
template <int kPerPower, int kPowers = 60>
class LogHistogram {
 public:
  static_assert(std::has_single_bit(static_cast<unsigned>(kPerPower)));

  void Add(uint64_t number) { Add(number, 1); }
  // Counts `number` as many times.
  void Add(uint64_t number, uint64_t times) {
    if (times == 0) return;
    number = std::min(number, (uint64_t{1} << kPowers) - 1);
    bins_[BinOf(number)] += times;
    count_ += times;
    max_ = std::max(max_, number);
  }
  // Adds the numbers that `other` has counted.
  void Merge(const LogHistogram& other) {
    for (size_t bin = 0; bin < bins_.size(); ++bin) bins_[bin] += other.bins_[bin];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }
  // Takes away the numbers that `earlier`, a copy of this one, had counted. The largest stays.
  void Subtract(const LogHistogram& earlier) {
    for (size_t bin = 0; bin < bins_.size(); ++bin) bins_[bin] -= earlier.bins_[bin];
    count_ -= earlier.count_;
  }

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  // The smallest bin's upper end at or below which at least `fraction` of the numbers lie, at most
  // max(); 0 before the first. REQUIRES: fraction in [0, 1].
  uint64_t Quantile(double fraction) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (size_t bin = 0; bin < bins_.size(); ++bin) {
      seen += bins_[bin];
      if (seen > 0 && seen >= wanted) return std::min(max_, EndOf(bin));
    }
    return max_;
  }
  // Calls `visit(end, count)` for each bin that is not empty, ascending: `count` numbers lie above
  // the bin before and at or below `end`.
  template <typename Visit>
  void ForEachBin(const Visit& visit) const {
    for (size_t bin = 0; bin < bins_.size(); ++bin) {
      if (bins_[bin] != 0) visit(EndOf(bin), bins_[bin]);
    }
  }

 private:
  static constexpr int kBits = std::bit_width(static_cast<unsigned>(kPerPower));  // 32: 6
  static constexpr size_t kBins = static_cast<size_t>(kPerPower) * (kPowers - kBits + 2);

  // Numbers below kPerPower have bins of their own; for others the leading bits count.
  static size_t BinOf(uint64_t number) {
    if (number < kPerPower) return number;
    const int shift = std::bit_width(number) - kBits;
    return kPerPower * static_cast<size_t>(shift + 1) + (number >> shift) - kPerPower;
  }
  // The largest number of a bin.
  static uint64_t EndOf(size_t bin) {
    if (bin < kPerPower) return bin;
    const size_t shift = bin / kPerPower - 1;
    return ((bin % kPerPower + kPerPower + 1) << shift) - 1;
  }

  std::array<uint64_t, kBins> bins_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_LOG_HISTOGRAM_H_
