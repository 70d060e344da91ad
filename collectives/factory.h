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

struct ConnectOptions {
  std::string backend;  // one of BackendNames() other than "threads"; empty: Connect chooses
  LaunchFlags flags;    // the program's own --rank and --world-size
  // Both need a rank, from the flags or a launcher.
  std::string rendezvous;  // rendezvous.h; empty: where the launcher says, if it does
  std::string job_id;      // a name that tells this run from others there; empty: the launcher's
  // How long the ranks wait for each other at the start. Not over MPI: MPI_Init, what MPI connects
  // by itself and MPI_Finalize end when the launcher ends the job, or by on_unbounded.
  std::chrono::nanoseconds connect_timeout = std::chrono::minutes(5);
  std::chrono::nanoseconds timeout{0};  // limit of each operation, as Communicator::set_timeout
  // Options of the backend "nccl"; its connect_timeout is the one above.
  NcclOptions nccl;
  // Told when a wait begins that nothing interrupts, which are MPI's start and its end ("the start
  // of MPI (OMPI_COMM_WORLD_SIZE=2, rank 1 of 2)", "MPI_Finalize (...)"), and with an empty text
  // when it is over: for a watch that ends the process. The library itself ends a process only in
  // Communicator::Abort over MPI. Runs in Connect; that of the call that starts MPI also where the
  // last communicator is dropped, so it lives until then. Does not throw. May be empty.
  std::function<void(std::string_view what)> on_unbounded;
  // True if a backend whose sums have an order of their own (NCCL) is refused.
  bool exact = false;
};

struct Launch {
  std::unique_ptr<Communicator> communicator;
  // Why this backend: "mpi: OMPI_COMM_WORLD_SIZE=2",
  // "tcp: WORLD_SIZE=2, met at tcp:node1:29500", "single: no launcher variables",
  // "nccl: 2.28.9; tcp: WORLD_SIZE=2, met at tcp:node1:29500".
  std::string reason;
};

// Learns the rank of this process (launcher.h) and connects it to the others. Without a backend by
// name that is: a group of one where there is one rank; MPI where its launcher started the ranks
// (Open MPI, PMI, PMIx) and nobody named a rendezvous; TCP elsewhere, and where this build has no
// MPI. NCCL only by name, because its tensors are device memory; the ranks then meet over what
// would have been chosen without it, and the communicator is a NcclCommunicator.
//
// MPI is initialised (FUNNELED) by this call and finalised with the last communicator, of all calls
// together, on the thread that drops it: let that be the caller's. Where MPI is initialised
// already, its owner finalises it, after the communicators are gone. After it was finalised a call
// over MPI is FAILED_PRECONDITION. Call it before other threads start (it may set
// OMPI_MCA_mpi_yield_when_idle in the environment).
//   INVALID_ARGUMENT     no such backend, flags that do not fit, no such rendezvous, or `exact` of
//                        NCCL, whose sums are its own
//   FAILED_PRECONDITION  the launchers contradict each other; several ranks were launched but this
//                        build has no MPI, or nobody said where to meet; `rendezvous` or `job_id`
//                        of a process that nobody gave a rank; MPI says another size than the
//                        launcher, or grants no MPI_THREAD_FUNNELED (a plain MPI_Init's)
//   other                as RunRendezvous (rendezvous.h): a rank that never comes, an address that
//   is taken;
//                        as MakeNccl: no library, a wrong version, no device, a build without CUDA
absl::StatusOr<Launch> Connect(const ConnectOptions& options = {});

// Names of the backends in this build: {"single", "threads", "tcp", "mpi", "nccl"}. "nccl" is
// always there: it is loaded when it is asked for.
std::vector<std::string> BackendNames();

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_FACTORY_H_
