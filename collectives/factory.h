#ifndef MILLRACE_COLLECTIVES_FACTORY_H_
#define MILLRACE_COLLECTIVES_FACTORY_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/launcher.h"
#include "collectives/nccl_communicator.h"

namespace millrace::collectives {

// A group of one: every operation returns at once.
std::unique_ptr<Communicator> MakeSingle();

// `size` communicators (none if < 1) of one group whose ranks are threads of this process. Abort
// ends also the groups split from it; a communicator that is destroyed makes its peers' calls
// UNAVAILABLE.
std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(int size);

// Runs `body` once per rank of a thread group, each on its own thread. A rank that fails aborts the
// group; a rank whose body ends leaves it. Returns, after all have ended, the status of the lowest
// rank that failed by itself (a CANCELLED that only reports a peer's abort does not count).
//   INVALID_ARGUMENT    size < 1
//   RESOURCE_EXHAUSTED  no thread for a rank
absl::Status RunRanks(int size, const std::function<absl::Status(Communicator&)>& body);
// The same for `ranks`, the ranks of a group that this process has (replicas.h).
absl::Status RunGroup(std::vector<std::unique_ptr<Communicator>> ranks,
                      const std::function<absl::Status(Communicator&)>& body);

struct ConnectOptions {
  std::string backend;  // one of BackendNames() other than "threads"; empty: Connect chooses
  LaunchFlags flags;    // the program's own --rank and --world-size
  // Both need a rank, from the flags or a launcher.
  std::string rendezvous;  // as in rendezvous.h; empty: the launcher's, if it names one
  std::string job_id;      // a name that no other run has there; empty: the launcher's
  // True if `flags` and `rendezvous` say all, and the launcher's variables are not read: for a
  // group of some of the job's ranks, or of ranks that the launcher has not started.
  bool ignore_launcher = false;
  // How long the ranks wait for each other at the start. It does not limit MPI_Init, MPI's own
  // connections and MPI_Finalize: only the launcher, by ending the job, or on_unbounded ends them.
  std::chrono::nanoseconds connect_timeout = std::chrono::minutes(5);
  std::chrono::nanoseconds timeout{0};  // limit of each operation, as Communicator::set_timeout
  // As RendezvousOptions::watch, while ranks meet; over MPI it is not called. May be empty.
  std::function<absl::Status()> watch;
  // Options of the backend "nccl"; its connect_timeout is the one above.
  NcclOptions nccl;
  // Called when a wait that cannot be interrupted begins, that is MPI's start or end ("the start of
  // MPI (OMPI_COMM_WORLD_SIZE=2, rank 1 of 2)", "MPI_Finalize (...)"), and with an empty text when
  // the wait is over: for a watch that ends the process. The library itself ends a process only in
  // Communicator::Abort over MPI. Runs in Connect. The function of the call that starts MPI also
  // runs where the last communicator is dropped, and must live until then. Must not throw. May be
  // empty.
  std::function<void(std::string_view what)> on_unbounded;
};

struct Launch {
  std::unique_ptr<Communicator> communicator;
  // Why this backend: "mpi: OMPI_COMM_WORLD_SIZE=2",
  // "tcp: WORLD_SIZE=2, met at tcp:node1:29500", "single: no launcher variables",
  // "nccl: 2.28.9; tcp: WORLD_SIZE=2, met at tcp:node1:29500".
  std::string reason;
};

// Learns the rank of this process (launcher.h) and connects it to the others. If no backend is
// named, it is: a group of one if there is one rank; MPI if its launcher started the ranks (Open
// MPI, PMI, PMIx) and no rendezvous is named; otherwise, and if this build has no MPI, TCP. NCCL is
// chosen only by name, because its tensors are device memory; the ranks then meet over the backend
// that would have been chosen without it, and the communicator is a NcclCommunicator.
//
// MPI is initialised (FUNNELED) by this call and finalised with the last communicator of all calls,
// on the thread that drops it: let that be the caller's. If MPI is initialised already, its owner
// finalises it, after the communicators are gone. After that a call over MPI is
// FAILED_PRECONDITION. Call it before other threads start (it may set OMPI_MCA_mpi_yield_when_idle
// in the environment).
//   INVALID_ARGUMENT     no such backend, flags that do not fit, a malformed rendezvous
//   FAILED_PRECONDITION  the launchers contradict each other; several ranks were launched but this
//                        build has no MPI, or no place to meet is named; `rendezvous` or `job_id`
//                        is given but the process has no rank; MPI and the launcher differ in size;
//                        MPI does not grant MPI_THREAD_FUNNELED (after a plain MPI_Init)
//   other                as RunRendezvous (rendezvous.h): a rank never comes, an address is taken;
//                        as MakeNccl: no library, a wrong version, no device, a build without CUDA
absl::StatusOr<Launch> Connect(const ConnectOptions& options = {});

// Names of the backends in this build: {"single", "threads", "tcp", "mpi", "nccl"}. "nccl" is
// always there: it is loaded when it is asked for.
std::vector<std::string> BackendNames();

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_FACTORY_H_
