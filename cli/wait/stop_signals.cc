#include "cli/wait/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace millrace::cli {
namespace {

// Signal handler -> the loop of the command, relaxed: the flag carries no other data.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnStopSignal(int signal_number) {
  stop_requested.store(true, std::memory_order_relaxed);
  std::signal(signal_number, SIG_DFL);
  if (signal_number != SIGINT) return;
  constexpr std::string_view kText = "\nmillrace: stopping; Ctrl-C again ends at once\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
}

}  // namespace

const std::atomic<bool>& CatchStopSignals() {
  if (std::signal(SIGINT, OnStopSignal) == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, OnStopSignal);
  std::signal(SIGUSR1, OnStopSignal);
  return stop_requested;
}

}  // namespace millrace::cli
