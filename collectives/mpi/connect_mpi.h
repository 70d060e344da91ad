#ifndef MILLRACE_COLLECTIVES_MPI_CONNECT_MPI_H_
#define MILLRACE_COLLECTIVES_MPI_CONNECT_MPI_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/messages/transport_communicator.h"

namespace millrace::collectives {

struct MpiOptions {
  // Ranks on this host as far as the launcher told; 0: unknown.
  int local_size = 0;
  TransportOptions transport;
  // Groups of a connection, its own among them; 0: as many as MPI's tags suffice for. For tests.
  uint32_t max_groups = 0;
  // Called when a wait begins that nothing interrupts, and with an empty text when it is over: "the
  // start of MPI" (MPI_Init, and the first calls of all ranks; the environment is as MPI wants it,
  // so it may start threads) and, where this call starts MPI, "MPI_Finalize". A wait that fails may
  // end without the empty text. May be empty.
  std::function<void(std::string_view what)> on_unbounded;
};

// True in a build with MPI.
bool HasMpi();

// False where MPI ends the process, instead of reporting, when srun started it without a PMI (Open
// MPI): then it must not be started at all.
bool ReportsMissingPmi();

// The communicator of all ranks of this MPI job. Initialises MPI (FUNNELED) unless that is done
// already; the side that initialised it finalises it, here with the last communicator made from
// this one, on the thread that drops it (MPI wants the thread that called this function).
//   FAILED_PRECONDITION  this build has no MPI, MPI was finalised already or grants no FUNNELED
//   UNAVAILABLE          MPI does not start
absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(const MpiOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_CONNECT_MPI_H_
