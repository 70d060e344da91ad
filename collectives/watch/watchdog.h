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
  // How long ranks that know of a loss have to show it; between hosts that takes some turns.
  std::chrono::milliseconds election{800};
  // The end does not wait for a rank that has shown no sign of life for this long.
  std::chrono::milliseconds silence{3000};
  // The clock for everything but the length of a turn. Called by any thread.
  ClockFunction clock = &std::chrono::steady_clock::now;
};

// Watchdog::Make that takes the ranks of `host`, a group split from `job` in the order of its
// ranks, for those of one host. Collective.
absl::StatusOr<std::unique_ptr<Watchdog>> MakeWatchdog(Communicator& job, Communicator& host,
                                                       const WatchdogOptions& options,
                                                       const WatchdogPace& pace = {});

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_WATCHDOG_H_
