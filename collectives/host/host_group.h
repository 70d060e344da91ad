#ifndef MILLRACE_COLLECTIVES_HOST_HOST_GROUP_H_
#define MILLRACE_COLLECTIVES_HOST_HOST_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// The ranks of `communicator` that share memory with this one (HostIdentity), ordered by rank.
// Collective.
absl::StatusOr<std::unique_ptr<Communicator>> SplitByHost(Communicator& communicator);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_HOST_HOST_GROUP_H_
