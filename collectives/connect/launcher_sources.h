#ifndef MILLRACE_COLLECTIVES_CONNECT_LAUNCHER_SOURCES_H_
#define MILLRACE_COLLECTIVES_CONNECT_LAUNCHER_SOURCES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collectives/launcher.h"

namespace millrace::collectives {

// The launcher by one source; kind kNone where the source says nothing. Errors as DetectLauncher's.
absl::StatusOr<Launcher> ReadFlags(const LaunchFlags& flags);
absl::StatusOr<Launcher> ReadTorchrun(const EnvLookup& lookup);
absl::StatusOr<Launcher> ReadOpenMpi(const EnvLookup& lookup);
absl::StatusOr<Launcher> ReadPmi(const EnvLookup& lookup);
absl::StatusOr<Launcher> ReadSlurm(const EnvLookup& lookup);
absl::StatusOr<Launcher> ReadPmix(const EnvLookup& lookup, const Launcher& slurm);
absl::StatusOr<Launcher> ReadTfConfig(const EnvLookup& lookup);
absl::StatusOr<Launcher> ReadKubernetes(const EnvLookup& lookup, const LaunchFlags& flags);

// "tcp:HOST:PORT" from MASTER_ADDR and MASTER_PORT, empty without them. Where torchrun's agent
// listens on that port itself (TORCHELASTIC_USE_AGENT_STORE), the port after it.
//   FAILED_PRECONDITION  MASTER_PORT is no port, or one of the two is missing
absl::StatusOr<std::string> MasterAddress(const EnvLookup& lookup);

// The first host of Slurm's "node[001-003,7],other": "node001". Empty for an empty list.
std::string FirstHost(std::string_view node_list);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CONNECT_LAUNCHER_SOURCES_H_
