#include "cli/wait/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <semaphore>
#include <string_view>
#include <system_error>
#include <thread>

// Kernels of oneDNN (2.6.3, AVX-512) put their stack pointer into memory of the heap while they
// compute. A handler that ran on such a thread would write its frame beside that memory: a job that
// was stopped ended in "corrupted size vs. prev_size" now and then. So the thread that computes,
// and all that it starts later, take no stop signals, and one thread is there to take them.

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

// A thread that waits, so that handlers run on it and not on the one that made it.
class HandlerThread {
 public:
  HandlerThread() {
    try {
      thread_ = std::thread([this] { end_.acquire(); });
    } catch (const std::system_error&) {  // handlers run on any thread then
      return;
    }
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal_number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal_number);
    (void)pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // fails for a wrong first argument alone
  }
  ~HandlerThread() {
    if (!thread_.joinable()) return;
    end_.release();
    thread_.join();
  }

 private:
  std::binary_semaphore end_{0};
  std::thread thread_;
};

}  // namespace

const std::atomic<bool>& CatchStopSignals() {
  static const HandlerThread thread;
  if (std::signal(SIGINT, OnStopSignal) == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, OnStopSignal);
  std::signal(SIGUSR1, OnStopSignal);
  return stop_requested;
}

}  // namespace millrace::cli
