#include "collectives/factory.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/messages/transport_communicator.h"
#include "collectives/mpi/connect_mpi.h"
#include "collectives/nccl/api.h"
#include "collectives/rendezvous.h"
#include "collectives/tcp/connect_tcp.h"

namespace millrace::collectives {
namespace {

constexpr char kSingle[] = "single";
constexpr char kMpi[] = "mpi";
constexpr char kTcp[] = "tcp";
constexpr char kNccl[] = "nccl";

constexpr char kSlurmAdvice[] = "start with srun --mpi=pmix, or with mpirun inside sbatch";

bool IsSlurm(const Launcher& launcher) {
  return launcher.kind == LauncherKind::kSlurm || launcher.kind == LauncherKind::kPmix;
}
bool StartsMpi(const Launcher& launcher) {
  return launcher.kind == LauncherKind::kOpenMpi || launcher.kind == LauncherKind::kPmi ||
         launcher.kind == LauncherKind::kPmix;
}

// MPI must see the job that the launcher started; a size of 1 means that it saw no launcher at all.
absl::Status CheckAgreement(const Launcher& launcher, const Communicator& mpi) {
  if (launcher.size == 0 || (mpi.size() == launcher.size && mpi.rank() == launcher.rank)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the launcher says rank ", launcher.rank, " of ", launcher.size, " (", launcher.source,
      ") but MPI says rank ", mpi.rank(), " of ", mpi.size(), "; ",
      IsSlurm(launcher)
          ? kSlurmAdvice
          : "start with the mpirun of the MPI library that this program is linked with"));
}

absl::Status CheckBackend(std::string_view backend) {
  std::vector<std::string> names = BackendNames();
  std::erase(names, "threads");
  if (backend.empty() || std::find(names.begin(), names.end(), backend) != names.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend '", ToAbsl(backend),
                   "' is none that processes of this build have: ", absl::StrJoin(names, ", ")));
}

// Each of the processes would run alone, all of them on the same files.
EnvLookup VariablesFor(const ConnectOptions& options) {
  if (!options.ignore_launcher) return Environment;
  return [](std::string_view) { return std::nullopt; };
}

absl::Status CheckSeat(const Launcher& launcher, const ConnectOptions& options) {
  if (launcher.kind != LauncherKind::kNone) return absl::OkStatus();
  if (options.rendezvous.empty() && options.job_id.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(options.rendezvous.empty() ? "--job-id=" : "--rendezvous=",
                   options.rendezvous.empty() ? options.job_id : options.rendezvous,
                   " is for one of several ranks, but nobody says which this is (", launcher.source,
                   "): give --rank and --world-size too (0 and 1 to run alone), or leave it out"));
}

absl::Status CheckSize(std::string_view backend, const Launcher& launcher) {
  if (backend == kSingle && launcher.size > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend 'single' is for one rank, but ", launcher.source));
  }
  if (backend == kTcp && launcher.size == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the launcher tells the number of ranks to MPI only (", launcher.source,
                     "): backend 'tcp' needs --rank and --world-size"));
  }
  return absl::OkStatus();
}

// The backend to connect by where none was named.
std::string_view Choose(const Launcher& launcher, bool named_rendezvous) {
  if (launcher.size == 1) return kSingle;
  const bool tcp_can = launcher.size > 0 && !launcher.rendezvous.empty();
  if (StartsMpi(launcher) && tcp_can && (named_rendezvous || !HasMpi())) return kTcp;
  return StartsMpi(launcher) ? kMpi : kTcp;
}

std::string SeatText(const Launcher& launcher) {
  const std::string seat = launcher.size > 0
                               ? absl::StrCat(", rank ", launcher.rank, " of ", launcher.size)
                               : std::string();
  return absl::StrCat(" (", launcher.source, seat, ")");
}

absl::StatusOr<Launch> LaunchMpi(const Launcher& launcher, const ConnectOptions& connect) {
  if (!HasMpi()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "several ranks were launched (", launcher.source,
        ") but this build has no MPI: build with MILLRACE_MPI=ON, say where the ranks meet "
        "(--rendezvous), or start one process"));
  }
  if (launcher.kind == LauncherKind::kSlurm && !ReportsMissingPmi()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Slurm started several ranks (", launcher.source,
                     ") but gave MPI no means to find them (PMIx): ", kSlurmAdvice));
  }
  MpiOptions options;
  options.local_size = launcher.local_size;
  if (connect.on_unbounded) {  // lives as long as MPI
    options.on_unbounded = [tell = connect.on_unbounded,
                            seat = SeatText(launcher)](std::string_view what) {
      tell(what.empty() ? std::string() : absl::StrCat(ToAbsl(what), seat));
    };
  }
  absl::StatusOr<std::unique_ptr<Communicator>> connected = ConnectMpi(options);
  if (!connected.ok() && connect.on_unbounded) connect.on_unbounded("");
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> mpi, std::move(connected));
  MILLRACE_RETURN_IF_ERROR(CheckAgreement(launcher, *mpi));
  return Launch{std::move(mpi), absl::StrCat("mpi: ", launcher.source)};
}

absl::StatusOr<Launch> LaunchTcp(const Launcher& launcher, const ConnectOptions& options) {
  if (launcher.rendezvous.empty() && launcher.size > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "several ranks were launched (", launcher.source,
        ") but nobody says where they meet: give --rendezvous HOST:PORT (rank 0 listens there) or "
        "--rendezvous file:FOLDER (a folder that all share), or set MASTER_ADDR and MASTER_PORT",
        IsSlurm(launcher) ? "; or " : "", IsSlurm(launcher) ? kSlurmAdvice : ""));
  }
  RendezvousOptions rendezvous;
  rendezvous.address = launcher.rendezvous;
  rendezvous.rank = launcher.rank;
  rendezvous.size = launcher.size;
  rendezvous.job_id = launcher.job_id;
  rendezvous.timeout = options.connect_timeout;
  rendezvous.watch = options.watch;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, ConnectTcp(rendezvous));
  std::string reason = absl::StrCat("tcp: ", launcher.source);
  if (launcher.size > 1) absl::StrAppend(&reason, ", met at ", launcher.rendezvous);
  return Launch{MakeTransportCommunicator(std::move(transport)), std::move(reason)};
}

absl::StatusOr<Launch> LaunchBy(std::string_view backend, const Launcher& launcher,
                                const ConnectOptions& options) {
  if (backend == kSingle) return Launch{MakeSingle(), absl::StrCat("single: ", launcher.source)};
  return backend == kMpi ? LaunchMpi(launcher, options) : LaunchTcp(launcher, options);
}

absl::StatusOr<Launch> LaunchNccl(const Launcher& launcher, const ConnectOptions& options) {
  const std::string_view beside = Choose(launcher, !options.rendezvous.empty());
  MILLRACE_RETURN_IF_ERROR(CheckSize(beside, launcher));
  MILLRACE_ASSIGN_OR_RETURN(Launch launch, LaunchBy(beside, launcher, options));
  launch.communicator->set_timeout(options.connect_timeout);
  NcclOptions nccl_options = options.nccl;
  nccl_options.connect_timeout = options.connect_timeout;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<NcclCommunicator> communicator,
                            MakeNccl(*launch.communicator, nccl_options));
  std::string reason =
      absl::StrCat("nccl: ", nccl::VersionText(communicator->version()), "; ", launch.reason);
  return Launch{std::move(communicator), std::move(reason)};
}

}  // namespace

absl::StatusOr<Launch> Connect(const ConnectOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckBackend(options.backend));
  const bool by_nccl = options.backend == kNccl;
  if (!options.rendezvous.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckRendezvousAddress(options.rendezvous));
  }
  MILLRACE_ASSIGN_OR_RETURN(Launcher launcher,
                            DetectLauncher(VariablesFor(options), options.flags));
  MILLRACE_RETURN_IF_ERROR(CheckSeat(launcher, options));
  if (!options.rendezvous.empty()) launcher.rendezvous = options.rendezvous;
  if (!options.job_id.empty()) launcher.job_id = options.job_id;
  const std::string_view backend = options.backend.empty()
                                       ? Choose(launcher, !options.rendezvous.empty())
                                       : std::string_view(options.backend);
  MILLRACE_RETURN_IF_ERROR(CheckSize(backend, launcher));
  MILLRACE_ASSIGN_OR_RETURN(Launch launch, by_nccl ? LaunchNccl(launcher, options)
                                                   : LaunchBy(backend, launcher, options));
  launch.communicator->set_timeout(options.timeout);
  return launch;
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names = {kSingle, "threads", kTcp};
  if (HasMpi()) names.push_back(kMpi);
  names.push_back(kNccl);
  return names;
}

}  // namespace millrace::collectives
