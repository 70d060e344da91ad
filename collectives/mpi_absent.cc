// Stands in for mpi_communicator.cc in a build without MPI.
#include "absl/status/status.h"
#include "collectives/mpi_internal.h"

namespace millrace::collectives {

bool HasMpi() { return false; }
bool ReportsMissingPmi() { return true; }

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(int, const MpiTuning&) {
  return absl::FailedPreconditionError("this build has no MPI (MILLRACE_MPI=OFF)");
}

}  // namespace millrace::collectives
