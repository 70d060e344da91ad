#include "collectives/connect/launcher_sources.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

// Slurm numbers its own steps (batch script, interactive shell, external) from here upwards.
constexpr int64_t kFirstSpecialSlurmStep = 0xfffffff0;
constexpr int64_t kMaxRanks = 1 << 24;
// Where ranks of one Slurm step meet when nobody says where: below the ports that kernels give
// away.
constexpr int64_t kFirstSlurmPort = 20000;
constexpr int64_t kSlurmPorts = 10000;

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

// "A.B" of those variables that are set.
std::string JobId(const EnvLookup& lookup, std::initializer_list<std::string_view> names) {
  std::string id;
  for (const std::string_view name : names) {
    const std::optional<std::string> part = lookup(name);
    if (part) absl::StrAppend(&id, id.empty() ? "" : ".", *part);
  }
  return id;
}

}  // namespace

absl::StatusOr<Launcher> ReadFlags(const LaunchFlags& flags) {
  if (!flags.rank) return Launcher{};
  if (!flags.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank=", *flags.rank, " is given but --world-size is not"));
  }
  if (*flags.size < 1 || *flags.size > kMaxRanks || *flags.rank < 0 || *flags.rank >= *flags.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank=", *flags.rank, " and --world-size=", *flags.size, " do not fit"));
  }
  Launcher launcher;
  launcher.kind = LauncherKind::kFlags;
  launcher.size = static_cast<int>(*flags.size);
  launcher.rank = static_cast<int>(*flags.rank);
  launcher.source = absl::StrCat("--world-size=", *flags.size);
  return launcher;
}

absl::StatusOr<std::string> MasterAddress(const EnvLookup& lookup) {
  const std::optional<std::string> host = lookup("MASTER_ADDR");
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> port, Number(lookup, "MASTER_PORT"));
  if (!host && !port) return std::string();
  if (!host || host->empty() || !port) {
    return absl::FailedPreconditionError(
        absl::StrCat("launcher variable ", port ? "MASTER_PORT" : "MASTER_ADDR", " is set but ",
                     port ? "MASTER_ADDR" : "MASTER_PORT", " is not"));
  }
  const bool taken = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (*port < 1 || *port > 65535 - taken) {
    return absl::FailedPreconditionError(
        absl::StrCat("launcher variable MASTER_PORT=", *port, " is no port",
                     taken ? " that has one after it for us (torchrun listens on it itself)" : ""));
  }
  const bool bare_v6 = host->find(':') != host->npos && host->front() != '[';
  return absl::StrCat("tcp:", bare_v6 ? "[" : "", *host, bare_v6 ? "]:" : ":", *port + taken);
}

absl::StatusOr<Launcher> ReadTorchrun(const EnvLookup& lookup) {
  // The names are common words: one of them alone says nothing.
  if (!lookup("RANK") || !lookup("WORLD_SIZE")) return Launcher{};
  MILLRACE_ASSIGN_OR_RETURN(Launcher launcher,
                            ReadPair(lookup, LauncherKind::kTorchrun, "WORLD_SIZE", "RANK"));
  MILLRACE_ASSIGN_OR_RETURN(const auto local_rank, Number(lookup, "LOCAL_RANK"));
  MILLRACE_ASSIGN_OR_RETURN(const auto local_size, Number(lookup, "LOCAL_WORLD_SIZE"));
  if (local_size && (*local_size < 1 || *local_size > launcher.size ||
                     (local_rank && *local_rank >= *local_size))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "launcher variables LOCAL_RANK=", local_rank.value_or(0),
        ", LOCAL_WORLD_SIZE=", *local_size, " and WORLD_SIZE=", launcher.size, " do not fit"));
  }
  launcher.local_size = static_cast<int>(local_size.value_or(0));
  MILLRACE_ASSIGN_OR_RETURN(launcher.rendezvous, MasterAddress(lookup));
  launcher.job_id = JobId(lookup, {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"});
  return launcher;
}

absl::StatusOr<Launcher> ReadOpenMpi(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(
      Launcher launcher,
      ReadPair(lookup, LauncherKind::kOpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"));
  launcher.local_size = LocalSize(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE");
  launcher.job_id = JobId(lookup, {"PMIX_NAMESPACE"});
  return launcher;
}

absl::StatusOr<Launcher> ReadPmi(const EnvLookup& lookup) {
  MILLRACE_ASSIGN_OR_RETURN(Launcher launcher,
                            ReadPair(lookup, LauncherKind::kPmi, "PMI_SIZE", "PMI_RANK"));
  launcher.local_size = LocalSize(lookup, "MPI_LOCALNRANKS");
  return launcher;
}

std::string FirstHost(std::string_view node_list) {
  std::string host;
  for (size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    const size_t close = std::min(node_list.find(']', i), node_list.size());
    const std::string_view ranges = node_list.substr(i + 1, close - i - 1);
    host += ranges.substr(0, ranges.find_first_of(",-"));
    i = close;
  }
  return host;
}

absl::StatusOr<Launcher> ReadSlurm(const EnvLookup& lookup) {
  const std::string_view step_name = lookup("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, Number(lookup, step_name));
  if (!step || *step >= kFirstSpecialSlurmStep || !lookup("SLURM_PROCID")) return Launcher{};
  const bool step_size = lookup("SLURM_STEP_NUM_TASKS").has_value();
  if (!step_size && !lookup("SLURM_NTASKS")) return Launcher{};
  MILLRACE_ASSIGN_OR_RETURN(
      Launcher launcher,
      ReadPair(lookup, LauncherKind::kSlurm, step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
               "SLURM_PROCID"));
  MILLRACE_ASSIGN_OR_RETURN(launcher.rendezvous, MasterAddress(lookup));
  const auto job = Number(lookup, "SLURM_JOB_ID");
  if (!job.ok() || !*job) return launcher;
  launcher.job_id = JobId(lookup, {"SLURM_JOB_ID", step_name, "SLURM_RESTART_COUNT"});
  // Slurm starts task 0 on the first host.
  const bool of_step = lookup("SLURM_STEP_NODELIST").has_value();
  const std::string list = lookup(of_step ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST").value_or("");
  if (!list.empty() && launcher.rendezvous.empty()) {
    const int64_t port = kFirstSlurmPort + (**job % kSlurmPorts * 7 + *step) % kSlurmPorts;
    launcher.rendezvous = absl::StrCat("tcp:", FirstHost(list), ":", port);
  }
  return launcher;
}

absl::StatusOr<Launcher> ReadPmix(const EnvLookup& lookup, const Launcher& slurm) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> rank, Number(lookup, "PMIX_RANK"));
  if (!rank || *rank > kMaxRanks) return Launcher{};
  Launcher launcher = slurm;  // srun --mpi=pmix: Slurm's variables know the size
  launcher.kind = LauncherKind::kPmix;
  if (slurm.kind != LauncherKind::kNone && slurm.rank == *rank) return launcher;
  launcher = Launcher{};
  launcher.kind = LauncherKind::kPmix;
  launcher.size = 0;
  launcher.rank = static_cast<int>(*rank);
  launcher.source = absl::StrCat("PMIX_RANK=", *rank);
  return launcher;
}

absl::StatusOr<Launcher> ReadKubernetes(const EnvLookup& lookup, const LaunchFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> rank,
                            Number(lookup, "JOB_COMPLETION_INDEX"));
  if (!rank) return Launcher{};
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> variable, Number(lookup, "WORLD_SIZE"));
  const std::optional<int64_t> size = flags.size ? flags.size : variable;
  if (!size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "JOB_COMPLETION_INDEX=", *rank,
        " names a rank of an Indexed Job, but not their number: give --world-size or WORLD_SIZE "
        "(completions of the job), or --rank=0 --world-size=1 to a process on its own"));
  }
  const absl::string_view size_name = flags.size ? "--world-size" : "WORLD_SIZE";
  if (*size < 1 || *size > kMaxRanks || *rank >= *size) {
    return absl::FailedPreconditionError(absl::StrCat("JOB_COMPLETION_INDEX=", *rank, " and ",
                                                      size_name, "=", *size, " do not fit"));
  }
  Launcher launcher;
  launcher.kind = LauncherKind::kKubernetes;
  launcher.size = static_cast<int>(*size);
  launcher.rank = static_cast<int>(*rank);
  launcher.source = absl::StrCat("JOB_COMPLETION_INDEX=", *rank, ", ", size_name, "=", *size);
  MILLRACE_ASSIGN_OR_RETURN(launcher.rendezvous, MasterAddress(lookup));
  return launcher;
}

}  // namespace millrace::collectives
