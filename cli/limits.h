#ifndef MILLRACE_CLI_LIMITS_H_
#define MILLRACE_CLI_LIMITS_H_

namespace millrace::cli {

// These make errors of what the system would end the process for. Each is called at most once,
// before there are threads.

// A file that grows over RLIMIT_FSIZE: the write fails, and no signal comes (SIGXFSZ).
void IgnoreFileSizeSignal();
// Memory that runs out while an exception passes through glibc (its pthread_once): glibc would load
// the unwinder then, and abort. It is loaded here.
void LoadUnwinder();
// Memory over the cgroup's limit: the process' data is limited to as much (RLIMIT_DATA), and an
// allocation fails where the kernel would kill. Stacks of threads, which count as a whole, become
// smaller then. Not for a process that opens CUDA or MPI: their drivers map far more data than they
// touch, and all of it counts.
void LimitData();

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIMITS_H_
