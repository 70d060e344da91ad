#ifndef MILLRACE_CLI_WAIT_STOP_SIGNALS_H_
#define MILLRACE_CLI_WAIT_STOP_SIGNALS_H_

#include <atomic>

namespace millrace::cli {

// Catches SIGINT (Ctrl-C), SIGTERM and SIGUSR1: the first signal sets the flag that is returned,
// the next one of its kind ends the process at once. A SIGINT that the process ignores, as a job in
// the background of a shell does, stays ignored. The calling thread, and threads that it starts
// later, take none of these signals: a thread of its own does until the process ends.
const std::atomic<bool>& CatchStopSignals();

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_WAIT_STOP_SIGNALS_H_
