#ifndef MILLRACE_TRAINER_RANKS_CORE_SHARES_H_
#define MILLRACE_TRAINER_RANKS_CORE_SHARES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

// The division of a host's processors over replicas: ranks that are threads of one process.

namespace millrace::trainer {

// The processors of one process.
struct ProcessCores {
  std::string host;
  std::vector<int> processors;
};

// Returns the processors of each of `replicas` ranks of process `own`. Processes of one host that
// have the same processors share them out evenly. Empty: nobody is bound, because there are fewer
// processors than ranks, or the processes have some of their processors in common.
std::vector<std::vector<int>> ShareCores(std::span<const ProcessCores> processes, size_t own,
                                         int replicas);

// The cores of every process, by rank. Collective.
absl::StatusOr<std::vector<ProcessCores>> GatherCores(collectives::Communicator& processes);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_CORE_SHARES_H_
