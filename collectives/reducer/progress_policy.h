#ifndef MILLRACE_COLLECTIVES_REDUCER_PROGRESS_POLICY_H_
#define MILLRACE_COLLECTIVES_REDUCER_PROGRESS_POLICY_H_

#include <optional>
#include <string>

#include "collectives/gradient_reducer.h"

namespace millrace::collectives {

struct ChosenPolicy {
  ProgressPolicy policy = ProgressPolicy::kInline;  // not kAuto
  std::string reason;
};

// The policy that `options` asks for, or the one that fits: a thread where each of the host's ranks
// has a core beside those that compute. Measured with every core busy, a thread costs more than it
// hides. `between_hosts`: the abilities of the communicator that this rank uses between hosts;
// empty: none. Communicators are called by one thread of a rank at a time, some by one thread only,
// so reducers that exchange at once (a team) have no threads. Nor has one whose caller exchanges
// amid a step: its thread would say of the rank that it computes, while it waits in the exchange.
ChosenPolicy ChoosePolicy(const ReducerOptions& options, int cores, int local_ranks,
                          const std::optional<Capabilities>& between_hosts);

// The same where gradients are in a device's memory.
ChosenPolicy ChooseDevicePolicy(const ReducerOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_PROGRESS_POLICY_H_
