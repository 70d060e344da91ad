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

// `size` communicators of one group whose ranks are threads of this process.
std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(int size);

// Runs `body` once per rank of a thread group, each on its own thread, and returns the first
// failing rank's status (by rank) after all have ended. A rank that fails aborts the group.
absl::Status RunRanks(int size, const std::function<absl::Status(Communicator&)>& body);

struct Launch {
  std::unique_ptr<Communicator> communicator;
  std::string
      reason;  // why this backend: "mpi: OMPI_COMM_WORLD_SIZE=2", "single: no launcher variables"
};

// Takes MPI when a launcher's variables say that this process is one of several ranks (Open MPI,
// PMI, Slurm), a group of one otherwise. MPI is initialised (FUNNELED) by this call and finalised
// with the last communicator.
//   FAILED_PRECONDITION  several ranks were launched but this build has no MPI, or MPI says another
//   size than the launcher
absl::StatusOr<Launch> Connect();

// Names of the backends in this build: {"single", "threads", "mpi"}.
std::vector<std::string> BackendNames();

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_FACTORY_H_
