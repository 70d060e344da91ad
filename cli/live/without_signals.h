#ifndef MILLRACE_CLI_LIVE_WITHOUT_SIGNALS_H_
#define MILLRACE_CLI_LIVE_WITHOUT_SIGNALS_H_

#include <pthread.h>

#include <csignal>

namespace millrace::cli {

// While it lives, the calling thread takes no signals; threads that it starts meanwhile never do.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before_);  // fails for a wrong first argument alone
  }
  ~WithoutSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_WITHOUT_SIGNALS_H_
