#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"

namespace millrace::cli {
namespace {

constexpr auto kTerminalPeriod = std::chrono::milliseconds(100);
constexpr auto kPlainPeriod = std::chrono::seconds(5);
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress(std::string_view what, std::string_view unit, int64_t total)
    : what_(what),
      unit_(unit),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      next_print_(start_ + (terminal_ ? kTerminalPeriod : kPlainPeriod)) {}

Progress::~Progress() { Print(/*last=*/true); }

void Progress::Update(int64_t done) {
  done_ = done;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_print_) return;
  next_print_ = now + (terminal_ ? kTerminalPeriod : kPlainPeriod);
  Print(/*last=*/false);
}

void Progress::Clear() {
  if (!terminal_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

std::string Progress::Line(bool last) const {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  if (total_ <= 0 || last) {
    return absl::StrFormat("%s: %d %s in %.1f s (%.0f/s)", what_, done_, unit_, seconds, rate);
  }
  // A total may be an estimate, so `done` may pass it.
  const double share =
      std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
  const double left =
      rate > 0 ? static_cast<double>(std::max<int64_t>(0, total_ - done_)) / rate : 0;
  const std::string tail = absl::StrFormat("%3.0f%% %d/%d %s %.0f/s, %.0f s left", 100 * share,
                                           done_, total_, unit_, rate, left);
  if (!terminal_) return absl::StrFormat("%s: %s", what_, tail);
  const int full = static_cast<int>(share * kBarWidth);
  return absl::StrFormat("%s [%s%s] %s", what_, std::string(full, '#'),
                         std::string(kBarWidth - full, '.'), tail);
}

void Progress::Print(bool last) {
  const std::string line = Line(last);
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K%s", line.c_str(), last ? "\n" : "");
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

}  // namespace millrace::cli
