#ifndef MILLRACE_CLI_TOP_TERMINAL_H_
#define MILLRACE_CLI_TOP_TERMINAL_H_

#include <span>
#include <string>

// Lines that are redrawn in place on a terminal, by the control sequences of ECMA-48 that every
// terminal knows.

namespace millrace::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
// The size of the terminal behind `fd`, within what can be drawn on; 80 by 24 if it does not tell.
TerminalSize TerminalSizeOf(int fd);

// The whole terminal: hides the cursor and takes off the rest.
inline constexpr char kBeginWhole[] = "\x1b[?25l\x1b[H\x1b[2J";
inline constexpr char kEndWhole[] = "\x1b[?25h";
// Draws the lines that fit from the top on, and leaves the cursor behind them.
std::string WholeText(std::span<const std::string> lines, const TerminalSize& size);

// A part below other output: draws an empty line and as many lines as fit, and leaves the cursor on
// the empty line, so that others' output takes its place and is not drawn over.
std::string BelowText(std::span<const std::string> lines, const TerminalSize& size);
// Takes it off.
inline constexpr char kClearBelow[] = "\r\x1b[J";

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_TERMINAL_H_
