#ifndef MILLRACE_COLLECTIVES_MPI_CONNECT_MPI_H_
#define MILLRACE_COLLECTIVES_MPI_CONNECT_MPI_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/messages/transport_communicator.h"

namespace millrace::collectives {

struct MpiOptions {
  // Ranks as far as the launcher told; 0: unknown. Open MPI's segmented ring is tried only where
  // this says 2 before MPI starts.
  int size = 0;
  // Ranks on this host as far as the launcher told; 0: unknown.
  int local_size = 0;
  enum class Sums {
    kProbed,  // MPI's own where they have the same bits and are faster
    kOurs,
    kUnprobed,  // ours too, for nobody would take MPI's
    kNative,    // MPI's own where they have the same bits, without a probe: for tests of them
    kRing,      // Open MPI's segmented ring where it can be forced, for tests likewise
  };
  Sums sums = Sums::kProbed;
  // Of a call of the probe; 0: none.
  std::chrono::nanoseconds timeout{0};
  TransportOptions transport;  // without native_sum
  // Groups of a connection, its own among them; 0: as many as MPI's tags suffice for. For tests.
  uint32_t max_groups = 0;
  // Told what begins that nothing interrupts, and with an empty text when it is over: "the start of
  // MPI" (MPI_Init, and the first calls of all ranks; the environment is as MPI wants it, so it may
  // start threads), "the probe of MPI's sums" and, where this call starts MPI, "MPI_Finalize". What
  // fails may end without the empty text. May be empty.
  std::function<void(std::string_view what)> on_unbounded;
};

struct MpiLaunch {
  std::unique_ptr<Communicator> communicator;
  std::string sums;  // who makes the sums of large data, and why
  // That choice: the probe and what it needed, next to nothing where there was none.
  std::chrono::nanoseconds probe_time{0};
};

// True in a build with MPI.
bool HasMpi();

// False where MPI ends the process, instead of reporting, when srun started it without a PMI (Open
// MPI): then it must not be started at all.
bool ReportsMissingPmi();

// The communicator of all ranks of this MPI job. Initialises MPI (FUNNELED) unless that is done
// already; who initialised it finalises it, here with the last communicator made from this one, on
// the thread that drops it (MPI wants the thread that called this function).
//   FAILED_PRECONDITION  this build has no MPI, MPI was finalised already or grants no FUNNELED
//   UNAVAILABLE          MPI does not start
absl::StatusOr<MpiLaunch> ConnectMpi(const MpiOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MPI_CONNECT_MPI_H_
