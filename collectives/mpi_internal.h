#ifndef MILLRACE_COLLECTIVES_MPI_INTERNAL_H_
#define MILLRACE_COLLECTIVES_MPI_INTERNAL_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// Sizes of single MPI calls. The bits of a sum over three or more ranks may depend on
// `reduce_chunk_bytes`, so it has no user option; tests make both small to reach the loops.
struct MpiTuning {
  // AllReduce and ReduceScatter: one default call of Open MPI over 102 MB takes 2-3 times as long
  // as chunks, for the page faults of a temporary as large as the data.
  size_t reduce_chunk_bytes = 1 << 20;
  // The other operations: keeps every count far below INT_MAX.
  size_t max_call_bytes = 1 << 30;
};

// True in a build with MPI.
bool HasMpi();

// False where MPI ends the process, instead of reporting, when srun started it without a PMI (Open
// MPI): then it must not be started at all.
bool ReportsMissingPmi();

// The communicator of all ranks of this MPI job. Initialises MPI (FUNNELED) unless that is done
// already; who initialised it finalises it, here with the last communicator made from this one, on
// the thread that drops it (MPI wants the thread that called this function). `local_size`: ranks on
// this host as far as the launcher told, 0: unknown.
//   FAILED_PRECONDITION  this build has no MPI, MPI was finalised already or grants no FUNNELED
//   UNAVAILABLE          MPI does not start
absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(int local_size,
                                                         const MpiTuning& tuning = {});

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_INTERNAL_H_
