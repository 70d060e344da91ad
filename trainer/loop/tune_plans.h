#ifndef MILLRACE_TRAINER_LOOP_TUNE_PLANS_H_
#define MILLRACE_TRAINER_LOOP_TUNE_PLANS_H_

#include <string>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "trainer/loop/session.h"

namespace millrace::trainer {

// Chooses the plans of the products of steps and evaluations: rank 0 compiles their networks, and
// times the plans that are not kept in `folder`, which is readers::CacheFolder's; the others take
// its choice. What cannot be read or kept is a warning. Collective. REQUIRES: the session has
// backends, on devices, and `tuned`. If a rank fails, all ranks return its error, one of
// Backend::Compile.
absl::Status TunePlans(const std::string& folder, collectives::Communicator& communicator,
                       Session& session);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_TUNE_PLANS_H_
