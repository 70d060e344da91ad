#ifndef MILLRACE_COLLECTIVES_REDUCER_PROGRESS_POLICY_H_
#define MILLRACE_COLLECTIVES_REDUCER_PROGRESS_POLICY_H_

#include <string>
#include <string_view>

#include "collectives/gradient_reducer.h"

namespace millrace::collectives {

struct ChosenPolicy {
  ProgressPolicy policy = ProgressPolicy::kInline;  // not kAuto
  std::string reason;
};

// What `options` asks for, or what fits: a thread where each of the host's ranks has a core beside
// those that compute. Measured with every core busy, a thread costs more than it hides. `cross` is
// the backend that this rank uses between hosts, or empty; "nccl": for all sums. Communicators are
// called by one thread of a rank at a time, MPI by one thread only, so reducers that exchange at
// once (a team) have no threads.
ChosenPolicy ChoosePolicy(const ReducerOptions& options, int cores, int local_ranks,
                          std::string_view cross);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_PROGRESS_POLICY_H_
