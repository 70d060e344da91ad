#include "cli/top/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

constexpr char kEndOfLine[] = "\x1b[K\r\n";

// As many of the lines as fit on `rows`, each redrawn.
std::string Drawn(std::span<const std::string> lines, int rows) {
  std::string text;
  for (const std::string& line : lines.first(std::min(lines.size(), static_cast<size_t>(rows)))) {
    absl::StrAppend(&text, line, kEndOfLine);
  }
  return text + "\x1b[J";
}

}  // namespace

TerminalSize TerminalSizeOf(int fd) {
  constexpr TerminalSize kLeast{40, 4};
  constexpr TerminalSize kMost{200, 1000};
  TerminalSize size;
  winsize told{};
  if (::ioctl(fd, TIOCGWINSZ, &told) != 0 || told.ws_col == 0 || told.ws_row == 0) return size;
  size.columns = std::clamp<int>(told.ws_col, kLeast.columns, kMost.columns);
  size.rows = std::clamp<int>(told.ws_row, kLeast.rows, kMost.rows);
  return size;
}

std::string WholeText(std::span<const std::string> lines, const TerminalSize& size) {
  return "\x1b[H" + Drawn(lines, size.rows - 1);
}

std::string BelowText(std::span<const std::string> lines, const TerminalSize& size) {
  const int rows = std::min(static_cast<int>(lines.size()), size.rows - 2);
  return absl::StrCat("\r", kEndOfLine, Drawn(lines, rows), "\x1b[", rows + 1, "A");
}

}  // namespace millrace::cli
