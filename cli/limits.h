#ifndef MILLRACE_CLI_LIMITS_H_
#define MILLRACE_CLI_LIMITS_H_

namespace millrace::cli {

// Makes errors of what the system would end the process for:
//   - a file that grows over RLIMIT_FSIZE: the write fails, and no signal comes (SIGXFSZ);
//   - memory over the cgroup's limit: the process' data is limited to as much (RLIMIT_DATA), and an
//     allocation fails where the kernel would kill. Stacks of threads, which count as a whole,
//     become smaller then.
// Called once, before there are threads.
void MakeErrorsOfLimits();

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIMITS_H_
