#include "collectives/factory.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/launcher.h"
#include "collectives/mpi_internal.h"

namespace millrace::collectives {
namespace {

std::optional<std::string> Environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

constexpr char kSlurmAdvice[] = "start with srun --mpi=pmix, or with mpirun inside sbatch";

// MPI must see the job that the launcher started; a size of 1 means that it saw no launcher at all.
absl::Status CheckAgreement(const Launcher& launcher, const Communicator& mpi) {
  if (launcher.size == 0 || (mpi.size() == launcher.size && mpi.rank() == launcher.rank)) {
    return absl::OkStatus();
  }
  const bool slurm = launcher.kind == LauncherKind::kSlurm || launcher.kind == LauncherKind::kPmix;
  return absl::FailedPreconditionError(absl::StrCat(
      "the launcher says rank ", launcher.rank, " of ", launcher.size, " (", launcher.source,
      ") but MPI says rank ", mpi.rank(), " of ", mpi.size(), "; ",
      slurm ? kSlurmAdvice
            : "start with the mpirun of the MPI library that this program is linked with"));
}

}  // namespace

absl::StatusOr<Launch> Connect() {
  MILLRACE_ASSIGN_OR_RETURN(const Launcher launcher, DetectLauncher(Environment));
  if (launcher.size == 1) return Launch{MakeSingle(), absl::StrCat("single: ", launcher.source)};
  if (!HasMpi()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "several ranks were launched (", launcher.source,
        ") but this build has no MPI: build with MILLRACE_MPI=ON, or start one process"));
  }
  if (launcher.kind == LauncherKind::kSlurm && !ReportsMissingPmi()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Slurm started several ranks (", launcher.source,
                     ") but gave MPI no means to find them (PMIx): ", kSlurmAdvice));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> mpi, ConnectMpi(launcher.local_size));
  MILLRACE_RETURN_IF_ERROR(CheckAgreement(launcher, *mpi));
  return Launch{std::move(mpi), absl::StrCat("mpi: ", launcher.source)};
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names = {"single", "threads"};
  if (HasMpi()) names.push_back("mpi");
  return names;
}

}  // namespace millrace::collectives
