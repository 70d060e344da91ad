#include "cli/wait/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"

namespace millrace::cli {
namespace {

constexpr auto kTerminalPeriod = std::chrono::milliseconds(100);
constexpr auto kPlainPeriod = std::chrono::seconds(5);
// Shorter work prints no last line.
constexpr auto kShortWork = std::chrono::seconds(1);
constexpr int kBarWidth = 30;

// "15 s", "12 min", "3 h 20 min".
std::string LeftText(double seconds) {
  if (seconds < 119.5) return absl::StrFormat("%.0f s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60 + 0.5);
  if (minutes < 120) return absl::StrCat(minutes, " min");
  return absl::StrFormat("%d h %02d min", minutes / 60, minutes % 60);
}

}  // namespace

Progress::Progress(std::string_view what, std::string_view unit, int64_t total, NowFunction now)
    : what_(what),
      unit_(unit),
      bytes_(unit == "bytes"),
      terminal_(isatty(STDERR_FILENO) == 1),
      now_(now),
      start_(now()),
      next_print_(start_ + (terminal_ ? kTerminalPeriod : kPlainPeriod)),
      total_(total) {}

Progress::~Progress() {
  if (printed_ || (updated_ && now_() - start_ >= kShortWork)) Print(/*last=*/true);
}

void Progress::Update(int64_t done) {
  done_ = done;
  updated_ = true;
  const auto now = now_();
  if (now < next_print_) return;
  next_print_ = now + (terminal_ ? kTerminalPeriod : kPlainPeriod);
  Print(/*last=*/false);
}

std::function<void(int64_t done, int64_t total)> Progress::Callback() {
  return [this](int64_t done, int64_t total) {
    SetTotal(total);
    Update(done);
  };
}

void Progress::Clear() {
  if (!terminal_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

std::string Progress::Amount(int64_t units) const {
  return bytes_ ? BytesText(units) : absl::StrCat(units, " ", unit_);
}

std::string Progress::RateAfter(double seconds) const {
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  if (bytes_) return BytesText(rate) + "/s";
  return rate < 10 ? absl::StrFormat("%.1f/s", rate) : absl::StrFormat("%.0f/s", rate);
}

// At a steady rate, the limit in time or the end of the work, whichever comes first.
std::optional<Progress::Rest> Progress::RestAfter(double seconds) const {
  std::optional<Rest> rest;
  if (limit_seconds_ > 0) {
    rest = {std::min(seconds / limit_seconds_, 1.0), std::max(0.0, limit_seconds_ - seconds), true};
  }
  if (total_ <= 0 || (done_ <= 0 && rest)) return rest;
  // A total may be an estimate, so `done` may pass it.
  const double fraction =
      std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
  const double left = fraction > 0 ? seconds * (1 / fraction - 1) : 0;
  if (!rest || left < rest->seconds_left) rest = {fraction, left, false};
  return rest;
}

std::string Progress::Whole(double seconds) const {
  if (unit_.empty()) return absl::StrFormat("%.1f s", seconds);
  return absl::StrFormat("%s in %.1f s (%s)", Amount(done_), seconds, RateAfter(seconds));
}

std::string Progress::Tail(const Rest& rest, double seconds) const {
  const std::string left = LeftText(rest.seconds_left) + " left";
  const std::string percent = absl::StrFormat("%3.0f%%", 100 * rest.fraction);
  if (unit_.empty()) return absl::StrCat(percent, ", ", left);
  const std::string done =
      rest.by_limit ? Amount(done_) : absl::StrCat(percent, " of ", Amount(total_));
  return absl::StrCat(done, ", ", RateAfter(seconds), ", ", left);
}

std::string Progress::Line(bool last) const {
  const double seconds = std::chrono::duration<double>(now_() - start_).count();
  const std::optional<Rest> rest = RestAfter(seconds);
  if (last || !rest) return absl::StrCat(what_, ": ", Whole(seconds));
  const std::string tail = Tail(*rest, seconds);
  if (!terminal_) return absl::StrCat(what_, ": ", tail);
  const int full = static_cast<int>(rest->fraction * kBarWidth);
  return absl::StrFormat("%s [%s%s] %s", what_, std::string(full, '#'),
                         std::string(kBarWidth - full, '.'), tail);
}

void Progress::Print(bool last) {
  printed_ = true;
  const std::string line = Line(last);
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K%s", line.c_str(), last ? "\n" : "");
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

}  // namespace millrace::cli
