#ifndef MILLRACE_CLI_TOP_CONSOLE_H_
#define MILLRACE_CLI_TOP_CONSOLE_H_

#include <termios.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "cli/top/terminal.h"

namespace millrace::cli {

// The keys and the signals of this process, and, if `is_screen`, the terminal of standard output,
// which it gives back at its end. Signals come by a file descriptor, so that no handler runs.
// Thread-compatible; one at a time.
class Console {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Console(bool is_screen);
  ~Console() { End(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool is_screen() const { return is_screen_; }
  // True if keys can be read.
  bool has_keys() const { return has_keys_; }

  void Show(const std::vector<std::string>& lines, const TerminalSize& size);

  enum class Event {
    kTurn,     // the time has come
    kRedraw,   // the terminal has another size, or is ours again
    kQuit,     // q, or a signal
    kWhatIfs,  // w
    kTrace,    // t
    kAnswer,   // `other` can be read
  };
  // Waits until `end`, a key, a signal, or until the file descriptor `other` can be read; -1: there
  // is none.
  Event Await(Clock::time_point end, int other);

 private:
  void Begin();
  void End();
  std::optional<Event> TakeKey();
  std::optional<Event> TakeSignal();

  const bool is_screen_;
  bool has_keys_ = false;
  std::optional<termios> before_;  // of the terminal, if it was changed
  UniqueFd signals_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_CONSOLE_H_
