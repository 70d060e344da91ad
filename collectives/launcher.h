#ifndef MILLRACE_COLLECTIVES_LAUNCHER_H_
#define MILLRACE_COLLECTIVES_LAUNCHER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace::collectives {

enum class LauncherKind { kNone, kOpenMpi, kPmi, kPmix, kSlurm };

// What the launcher's variables say about this process.
struct Launcher {
  LauncherKind kind = LauncherKind::kNone;
  int size = 1;        // ranks of the job; 0: unknown (PMIx tells it through its library only)
  int rank = 0;        // of this process
  int local_size = 0;  // ranks on this host; 0: unknown
  std::string source;  // "OMPI_COMM_WORLD_SIZE=2", or "no launcher variables"
};

// Looks up one variable; nullopt when it is not set.
using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;

// Reads the variables of Open MPI, PMI (MPICH, Intel), PMIx and Slurm, in this order: mpirun inside
// a Slurm job is normal, and the innermost launcher is the one that started this process. Slurm's
// count only inside a task of a job step, for a batch script and an salloc shell carry the
// allocation's SLURM_NTASKS without being one of several ranks.
//   FAILED_PRECONDITION  a variable is no number, size and rank do not fit, or two launchers are
//                        nested so that each task of one would start a whole job of the other
absl::StatusOr<Launcher> DetectLauncher(const EnvLookup& lookup);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_LAUNCHER_H_
