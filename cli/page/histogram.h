#ifndef MILLRACE_CLI_PAGE_HISTOGRAM_H_
#define MILLRACE_CLI_PAGE_HISTOGRAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

// The extent of a list of numbers, which is read twice: once for this, and once for a Histogram. A
// value type.
class ValueRange {
 public:
  // NaN and infinities are counted apart.
  void Add(double value);

  int64_t count() const { return count_; }  // of finite values
  int64_t num_other() const { return num_other_; }
  // Of finite values; 0 without any.
  double low() const { return low_; }
  double high() const { return high_; }
  double mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }
  // True if all finite values are whole numbers.
  bool whole() const { return whole_; }

 private:
  int64_t count_ = 0;
  int64_t num_other_ = 0;
  double low_ = 0;
  double high_ = 0;
  double sum_ = 0;
  bool whole_ = true;
};

// Counts of numbers in bars of equal width. A value type.
class Histogram {
 public:
  // A bar per whole number where there are few of them, else kMaxBars from the lowest value to the
  // highest.
  explicit Histogram(const ValueRange& range);

  // Counts a value of the range; others than finite ones are left out.
  void Count(double value);

  const std::vector<int64_t>& bars() const { return bars_; }
  // A figure, with the counts under the mouse.
  std::string ToHtml(std::string_view title) const;

  static constexpr size_t kMaxBars = 24;

 private:
  // The values of bar `i`: "7", "0.5 to 1".
  std::string BarText(size_t i) const;

  ValueRange range_;
  bool per_number_ = false;  // true if a bar is one whole number
  std::vector<int64_t> bars_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PAGE_HISTOGRAM_H_
