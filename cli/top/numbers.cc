#include "cli/top/numbers.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/number_text.h"

namespace millrace::cli {

std::string CountText(int64_t count) {
  if (count < 10'000'000) return Grouped(count);
  if (count < 1'000'000'000) return absl::StrFormat("%.1fM", static_cast<double>(count) * 1e-6);
  return absl::StrFormat("%.4gG", static_cast<double>(count) * 1e-9);
}

std::string RateText(double rate) {
  constexpr double kMost = 1e18;
  if (!std::isfinite(rate)) return "-";
  if (rate < 9.95) return absl::StrFormat("%.1f", rate);
  return CountText(std::llround(std::min(rate, kMost)));
}

std::string TimeText(double ns) {
  if (ns < 999.5e3) return absl::StrFormat("%.0f us", ns * 1e-3);
  if (ns < 999.95e6) return absl::StrFormat("%.1f ms", ns * 1e-6);
  return absl::StrFormat("%.1f s", ns * 1e-9);
}

std::string ClockText(double seconds) {
  constexpr int64_t kDay = 86400;
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  const int64_t rest = whole % kDay;
  const std::string clock =
      absl::StrFormat("%02d:%02d:%02d", rest / 3600, rest / 60 % 60, rest % 60);
  if (whole >= 100 * kDay) return absl::StrFormat("%d d", whole / kDay);
  return whole < kDay ? clock : absl::StrFormat("%d d %s", whole / kDay, clock);
}

std::string PlainText(std::string_view text, int width) {
  std::string plain(text);
  std::ranges::replace_if(
      plain, [](char c) { return c < ' ' || c > '~'; }, '?');
  const auto most = static_cast<size_t>(std::max(2, width));
  if (plain.size() > most) plain = plain.substr(0, most - 2) + "..";
  return plain;
}

}  // namespace millrace::cli
