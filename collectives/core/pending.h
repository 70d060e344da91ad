#ifndef MILLRACE_COLLECTIVES_CORE_PENDING_H_
#define MILLRACE_COLLECTIVES_CORE_PENDING_H_

#include <memory>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// An operation that has ended before anyone could wait for it.
std::unique_ptr<Pending> MakeEnded(absl::Status outcome);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_PENDING_H_
