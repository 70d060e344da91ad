#include "cli/wait/progress.h"

#include <unistd.h>

#include <algorithm>
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

std::string Progress::Rate(double per_second) const {
  if (bytes_) return BytesText(per_second) + "/s";
  return per_second < 10 ? absl::StrFormat("%.1f/s", per_second)
                         : absl::StrFormat("%.0f/s", per_second);
}

std::string Progress::Line(bool last) const {
  const double seconds = std::chrono::duration<double>(now_() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  if (total_ <= 0 || last) {
    return absl::StrFormat("%s: %s in %.1f s (%s)", what_, Amount(done_), seconds, Rate(rate));
  }
  // A total may be an estimate, so `done` may pass it.
  const double fraction =
      std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
  const double left =
      rate > 0 ? static_cast<double>(std::max<int64_t>(0, total_ - done_)) / rate : 0;
  const std::string tail = absl::StrFormat("%3.0f%% of %s, %s, %.0f s left", 100 * fraction,
                                           Amount(total_), Rate(rate), left);
  if (!terminal_) return absl::StrFormat("%s: %s", what_, tail);
  const int full = static_cast<int>(fraction * kBarWidth);
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
