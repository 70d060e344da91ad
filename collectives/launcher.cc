#include "collectives/launcher.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

// Slurm numbers its own steps (batch script, interactive shell, external) from here upwards.
constexpr int64_t kFirstSpecialSlurmStep = 0xfffffff0;
constexpr int64_t kMaxRanks = 1 << 24;

// The number in variable `name`; nullopt when it is not set.
absl::StatusOr<std::optional<int64_t>> Number(const EnvLookup& lookup, std::string_view name) {
  const std::optional<std::string> text = lookup(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  if (absl::SimpleAtoi(*text, &value) && value >= 0) return value;
  return absl::FailedPreconditionError(
      absl::StrCat("launcher variable ", ToAbsl(name), "='", *text, "' is not a number"));
}

// A launcher that gives rank and size in two variables. kNone when neither is set.
absl::StatusOr<Launcher> ReadPair(const EnvLookup& lookup, LauncherKind kind,
                                  std::string_view size_name, std::string_view rank_name) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> size, Number(lookup, size_name));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> rank, Number(lookup, rank_name));
  if (!size && !rank) return Launcher{};
  if (!size || !rank) {
    return absl::FailedPreconditionError(
        absl::StrCat("launcher variable ", ToAbsl(size ? size_name : rank_name), " is set but ",
                     ToAbsl(size ? rank_name : size_name), " is not"));
  }
  if (*size < 1 || *size > kMaxRanks || *rank >= *size) {
    return absl::FailedPreconditionError(absl::StrCat("launcher variables ", ToAbsl(rank_name), "=",
                                                      *rank, " and ", ToAbsl(size_name), "=", *size,
                                                      " do not fit"));
  }
  Launcher launcher;
  launcher.kind = kind;
  launcher.size = static_cast<int>(*size);
  launcher.rank = static_cast<int>(*rank);
  launcher.source = absl::StrCat(ToAbsl(size_name), "=", *size);
  return launcher;
}

// Only a hint for waiting, so a value that makes no sense is as good as none.
int LocalSize(const EnvLookup& lookup, std::string_view name) {
  const auto number = Number(lookup, name);
  return number.ok() && *number && **number <= kMaxRanks ? static_cast<int>(**number) : 0;
}

absl::StatusOr<Launcher> ReadOpenMpi(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(
      Launcher launcher,
      ReadPair(lookup, LauncherKind::kOpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"));
  launcher.local_size = LocalSize(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE");
  return launcher;
}

absl::StatusOr<Launcher> ReadPmi(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(Launcher launcher,
                            ReadPair(lookup, LauncherKind::kPmi, "PMI_SIZE", "PMI_RANK"));
  launcher.local_size = LocalSize(lookup, "MPI_LOCALNRANKS");
  return launcher;
}

absl::StatusOr<Launcher> ReadSlurm(const EnvLookup& lookup) {
  const std::string_view step_name = lookup("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, Number(lookup, step_name));
  if (!step || *step >= kFirstSpecialSlurmStep || !lookup("SLURM_PROCID")) return Launcher{};
  const bool step_size = lookup("SLURM_STEP_NUM_TASKS").has_value();
  if (!step_size && !lookup("SLURM_NTASKS")) return Launcher{};
  return ReadPair(lookup, LauncherKind::kSlurm, step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                  "SLURM_PROCID");
}

absl::StatusOr<Launcher> ReadPmix(const EnvLookup& lookup, const Launcher& slurm) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> rank, Number(lookup, "PMIX_RANK"));
  if (!rank || *rank > kMaxRanks) return Launcher{};
  Launcher launcher = slurm;  // srun --mpi=pmix: Slurm's variables know the size
  launcher.kind = LauncherKind::kPmix;
  if (slurm.kind != LauncherKind::kNone && slurm.rank == *rank) return launcher;
  launcher.size = 0;
  launcher.rank = static_cast<int>(*rank);
  launcher.source = absl::StrCat("PMIX_RANK=", *rank);
  return launcher;
}

}  // namespace

absl::StatusOr<Launcher> DetectLauncher(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(Launcher open_mpi, ReadOpenMpi(lookup));
  MILLRACE_ASSIGN_OR_RETURN(Launcher pmi, ReadPmi(lookup));
  const bool both = open_mpi.kind != LauncherKind::kNone && pmi.kind != LauncherKind::kNone;
  if (both && pmi.size > 1 && pmi.size != open_mpi.size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "launcher variables contradict each other: ", open_mpi.source, " but ", pmi.source,
        "; start either mpirun or srun, not one inside every task of the other"));
  }
  if (open_mpi.kind != LauncherKind::kNone) return open_mpi;
  if (pmi.kind != LauncherKind::kNone) return pmi;
  MILLRACE_ASSIGN_OR_RETURN(Launcher slurm, ReadSlurm(lookup));
  MILLRACE_ASSIGN_OR_RETURN(Launcher pmix, ReadPmix(lookup, slurm));
  if (pmix.kind != LauncherKind::kNone) return pmix;
  if (slurm.kind == LauncherKind::kNone) slurm.source = "no launcher variables";
  return slurm;
}

}  // namespace millrace::collectives
