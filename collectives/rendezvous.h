#ifndef MILLRACE_COLLECTIVES_RENDEZVOUS_H_
#define MILLRACE_COLLECTIVES_RENDEZVOUS_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// How processes that were not started by MPI find each other: rank 0 listens at an address that all
// know, or all write into a folder that all share. They exchange a few bytes each once (the address
// to connect to, for example) and leave nothing behind unless they are killed.

namespace millrace::collectives {

struct RendezvousOptions {
  // "tcp:HOST:PORT" or "HOST:PORT": rank 0 listens there; "file:FOLDER" or "/FOLDER": a folder on a
  // file system that all ranks share, made if it does not exist. May be empty for a single rank.
  std::string address;
  int rank = 0;
  int size = 1;
  // A name of this run: ranks of other runs at the same address are refused. If it is empty,
  // processes of two runs that live at the same time can be taken for peers. Not a secret: any
  // process that gives this name is trusted.
  std::string job_id;
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);
  // Called at least every 50 ms while it waits for ranks (a host that does not answer may take
  // seconds). A status other than OK ends the wait, and its code is the outcome's. May be empty.
  std::function<absl::Status()> watch;
};

// INVALID_ARGUMENT for an address of another form.
absl::Status CheckRendezvousAddress(std::string_view address);

// Blocks until all ranks have called it, and returns the `own` of each (at most 60,000 bytes), by
// rank.
//   DEADLINE_EXCEEDED    the timeout has passed; names the ranks that never came
//   ALREADY_EXISTS       the address is taken, or another process is this rank
//   FAILED_PRECONDITION  the ranks disagree on the size or job, or another program answers
//   UNAVAILABLE          a rank has gone again
//   RESOURCE_EXHAUSTED   no file descriptors are left
//   INVALID_ARGUMENT     the options or `own` are not taken
//   other                an error of the system: the folder or the network fails
absl::StatusOr<std::vector<std::string>> RunRendezvous(const RendezvousOptions& options,
                                                       std::string_view own);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_RENDEZVOUS_H_
