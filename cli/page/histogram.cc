#include "cli/page/histogram.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/page/html.h"

namespace millrace::cli {
namespace {

constexpr int64_t kBarHeight = 60;  // pixels of the highest

// Where a value lies between two others, from 0 to 1. Halves, since a difference of two numbers may
// be none.
double ShareOf(double value, double low, double high) {
  return high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0;
}

}  // namespace

void ValueRange::Add(double value) {
  if (!std::isfinite(value)) {
    ++num_other_;
    return;
  }
  low_ = count_ == 0 ? value : std::min(low_, value);
  high_ = count_ == 0 ? value : std::max(high_, value);
  sum_ += value;
  whole_ &= value == std::floor(value);
  ++count_;
}

Histogram::Histogram(const ValueRange& range)
    : range_(range),
      per_number_(range.whole() && range.high() - range.low() < static_cast<double>(kMaxBars)) {
  size_t bars = kMaxBars;
  if (per_number_) bars = static_cast<size_t>(range.high() - range.low()) + 1;
  bars_.resize(range.count() == 0 ? 0 : range.low() == range.high() ? 1 : bars);
}

void Histogram::Count(double value) {
  if (!std::isfinite(value)) return;
  const double share = ShareOf(value, range_.low(), range_.high());
  const double bar = per_number_ ? value - range_.low() : share * static_cast<double>(bars_.size());
  ++bars_[std::min(static_cast<size_t>(bar), bars_.size() - 1)];
}

std::string Histogram::BarText(size_t i) const {
  const auto edge = [&](size_t bar) {
    const double share = static_cast<double>(bar) / static_cast<double>(bars_.size());
    return range_.low() * (1 - share) + range_.high() * share;
  };
  if (per_number_) return absl::StrFormat("%.6g", range_.low() + static_cast<double>(i));
  if (bars_.size() == 1) return absl::StrFormat("%.6g", range_.low());
  return absl::StrFormat("%.6g to %.6g", edge(i), edge(i + 1));
}

std::string Histogram::ToHtml(std::string_view title) const {
  std::string html = "<figure class=\"histogram\"><p class=\"bars\">";
  const int64_t most = bars_.empty() ? 1 : std::max<int64_t>(1, std::ranges::max(bars_));
  for (size_t i = 0; i < bars_.size(); ++i) {
    const auto height =
        static_cast<int64_t>(std::ceil(static_cast<double>(kBarHeight) *
                                       static_cast<double>(bars_[i]) / static_cast<double>(most)));
    absl::StrAppendFormat(&html, "<span style=\"height:%dpx\" title=\"%s: %d\"></span>", height,
                          BarText(i), bars_[i]);
  }
  std::string text = absl::StrFormat("%s: %d values", ToAbsl(title), range_.count());
  if (range_.count() > 0) {
    absl::StrAppendFormat(&text, ", %.6g to %.6g, mean %.6g", range_.low(), range_.high(),
                          range_.mean());
  }
  if (range_.num_other() > 0) absl::StrAppend(&text, "; ", range_.num_other(), " not finite");
  return absl::StrCat(html, "</p><figcaption>", EscapeHtml(text), "</figcaption></figure>\n");
}

}  // namespace millrace::cli
