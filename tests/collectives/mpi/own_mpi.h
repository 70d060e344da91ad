#ifndef MILLRACE_TESTS_COLLECTIVES_MPI_OWN_MPI_H_
#define MILLRACE_TESTS_COLLECTIVES_MPI_OWN_MPI_H_

#include <mpi.h>

#include <functional>
#include <iostream>

#include "absl/status/status.h"

namespace millrace::collectives {

// `body` between MPI_Init and MPI_Finalize of this program's own, for Millrace does not finalise an
// MPI in which an operation failed. False: MPI did not start; a body that fails ends the whole job.
inline bool RunInOwnMpi(const std::function<absl::Status()>& body) {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    return false;
  const absl::Status status = body();
  if (!status.ok()) {
    std::cerr << status << "\n";
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return true;
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_MPI_OWN_MPI_H_
