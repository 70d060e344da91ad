#ifndef MILLRACE_COLLECTIVES_FACTORY_H_
#define MILLRACE_COLLECTIVES_FACTORY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// A group of one: every operation returns at once.
std::unique_ptr<Communicator> MakeSingle();

// `size` (> 0) communicators of one group whose ranks are threads of this process. Abort ends also
// the groups split from it; a communicator that is destroyed makes its peers' calls UNAVAILABLE.
std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(int size);

// Runs `body` once per rank of a thread group, each on its own thread. A rank that fails aborts the
// group; a rank whose body ends leaves it. Returns, after all have ended, the status of the lowest
// rank that failed by itself (a CANCELLED that only reports a peer's abort does not count).
//   INVALID_ARGUMENT    size < 1
//   RESOURCE_EXHAUSTED  no thread for a rank
absl::Status RunRanks(int size, const std::function<absl::Status(Communicator&)>& body);

struct Launch {
  std::unique_ptr<Communicator> communicator;
  std::string
      reason;  // why this backend: "mpi: OMPI_COMM_WORLD_SIZE=2", "single: no launcher variables"
};

// Takes MPI when a launcher's variables say that this process is one of several ranks (Open MPI,
// PMI, PMIx, Slurm), a group of one otherwise. MPI is initialised (FUNNELED) by this call and
// finalised with the last communicator, on the thread that drops it: let that be the caller's.
// Where MPI is initialised already, its owner finalises it, after the communicators are gone. Call
// it before other threads start (it may set OMPI_MCA_mpi_yield_when_idle in the environment).
//   FAILED_PRECONDITION  several ranks were launched but this build has no MPI, MPI says another
//                        size than the launcher, or the launcher's variables contradict each other
absl::StatusOr<Launch> Connect();

// Names of the backends in this build: {"single", "threads", "mpi"}.
std::vector<std::string> BackendNames();

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_FACTORY_H_
