#ifndef MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_
#define MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/host/flag.h"
#include "collectives/watchdog.h"

namespace millrace::collectives {

// The times of a watchdog beside its options.
struct WatchdogPace {
  // How often a rank shows that it lives and looks whether the others do.
  std::chrono::milliseconds turn{100};
  // How long all that know of a loss have to show it, between hosts in some turns.
  std::chrono::milliseconds election{800};
  // A rank that shows nothing for so long is not waited for at the end.
  std::chrono::milliseconds silence{3000};
  // What time it is, for all but the length of a turn. Called by any thread.
  ClockFunction clock = &std::chrono::steady_clock::now;
};

// Watchdog::Make where the ranks of `host`, a group split from `job` in the order of its ranks, are
// taken for those of one host. Collective.
absl::StatusOr<std::unique_ptr<Watchdog>> MakeWatchdog(Communicator& job, Communicator& host,
                                                       const WatchdogOptions& options,
                                                       const WatchdogPace& pace = {});

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_
