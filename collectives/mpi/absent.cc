// Stands in for transport.cc in a build without MPI.
#include "absl/status/status.h"
#include "collectives/mpi/connect_mpi.h"

namespace millrace::collectives {

bool HasMpi() { return false; }
bool ReportsMissingPmi() { return true; }

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(const MpiOptions&) {
  return absl::FailedPreconditionError("this build has no MPI (MILLRACE_MPI=OFF)");
}

}  // namespace millrace::collectives
