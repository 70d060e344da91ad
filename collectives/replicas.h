#ifndef MILLRACE_COLLECTIVES_REPLICAS_H_
#define MILLRACE_COLLECTIVES_REPLICAS_H_

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// Makes a group of all `processes`, each with `replicas` ranks as threads: process p has the ranks
// from p * replicas on. Returns those of this process, in order; they have the operations' timeout
// of `processes`, which may go before them. One process has a thread group. Several have a group
// over TCP, whatever connects them, because each rank is called by a thread of its own.
//
// Collective, on the thread that connected `processes`. Blocks until all ranks are connected, or
// for `connect_timeout`.
//   INVALID_ARGUMENT    replicas < 1, or the processes differ in it
//   RESOURCE_EXHAUSTED  no thread or no file descriptor is left
//   UNAVAILABLE, DEADLINE_EXCEEDED  a process is gone, or cannot be reached
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeReplicas(
    Communicator& processes, int replicas, std::chrono::nanoseconds connect_timeout);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REPLICAS_H_
