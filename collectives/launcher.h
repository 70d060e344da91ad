#ifndef MILLRACE_COLLECTIVES_LAUNCHER_H_
#define MILLRACE_COLLECTIVES_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::collectives {

// The source of this process's rank, strongest first.
enum class LauncherKind {
  kNone,
  kFlags,       // the program's own --rank and --world-size
  kTorchrun,    // torchrun, or its variables set by hand
  kOpenMpi,     // mpirun of Open MPI
  kPmi,         // MPICH's and Intel's
  kPmix,        // srun --mpi=pmix
  kSlurm,       // srun
  kTfConfig,    // TF_CONFIG
  kKubernetes,  // an Indexed Job
};

// The launcher's information about this process.
struct Launcher {
  LauncherKind kind = LauncherKind::kNone;
  int size = 1;        // ranks of the job; 0: unknown (PMIx tells it only through its library)
  int rank = 0;        // the rank of this process
  int local_size = 0;  // ranks on this host; 0: unknown
  std::string source;  // "OMPI_COMM_WORLD_SIZE=2", or "no launcher variables"
  // "tcp:HOST:PORT" where rank 0 may listen; empty: the launcher names none.
  std::string rendezvous;
  std::string job_id;  // different for every run; empty: the launcher names none
};

// The user's flags on the command line.
struct LaunchFlags {
  std::optional<int64_t> rank;
  std::optional<int64_t> size;
};

// Looks up one variable; nullopt when it is not set.
using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;
// That of this process.
std::optional<std::string> Environment(std::string_view name);

// Takes the flags, else torchrun's variables, else those of the innermost launcher: Open MPI, PMI
// (MPICH, Intel), PMIx, Slurm, in this order, because mpirun inside a Slurm job is normal; else
// TF_CONFIG; else the index of a Kubernetes Indexed Job with a size from the flags or WORLD_SIZE.
// Slurm's variables count only inside a task of a job step, because a batch script and an salloc
// shell carry the allocation's SLURM_NTASKS without being one of several ranks.
//   INVALID_ARGUMENT     TF_CONFIG is malformed (the text names the byte), the flags do not fit
//   FAILED_PRECONDITION  a variable is no number, size and rank do not fit, or two sources disagree
//                        on the size. Not compared: Slurm's size with that of an MPI job inside it
//                        (its tasks may be MPI's daemons, one per host), and torchrun's size
//                        (TORCHELASTIC_RUN_ID is set) with that of the launcher that started one
//                        torchrun per host
absl::StatusOr<Launcher> DetectLauncher(const EnvLookup& lookup, const LaunchFlags& flags = {});

// The tasks of a TF_CONFIG that has parameter servers.
struct TfCluster {
  std::vector<std::string> workers;  // "HOST:PORT" of each; the chief is the first
  std::vector<std::string> servers;  // those of the tasks of type "ps"
  bool is_server = false;            // true if this process is one of them
  int index = 0;                     // of this process among the workers, or among the servers
};

// Reads TF_CONFIG; nullopt if it is not set, or names no parameter server.
//   INVALID_ARGUMENT  it is malformed, or this process is neither worker nor server
absl::StatusOr<std::optional<TfCluster>> ReadTfCluster(const EnvLookup& lookup);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_LAUNCHER_H_
