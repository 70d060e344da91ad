#ifndef MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_
#define MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/watchdog.h"

namespace millrace::collectives {

// Watchdog::Make where the ranks of `host`, a group split from `job` in the order of its ranks, are
// taken for those of one host. Collective.
absl::StatusOr<std::unique_ptr<Watchdog>> MakeWatchdog(Communicator& job, Communicator& host,
                                                       const WatchdogOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_
