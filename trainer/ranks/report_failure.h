#ifndef MILLRACE_TRAINER_RANKS_REPORT_FAILURE_H_
#define MILLRACE_TRAINER_RANKS_REPORT_FAILURE_H_

#include <functional>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace millrace::trainer {

// Returns the error `status` as this rank returns it to its caller, and passes it to `report`
// (may be empty), which shows it to the user, if this rank is to do so: of an error that all ranks
// have, rank 0.
absl::Status ReportFailure(const std::function<void(const absl::Status& status)>& report,
                           const collectives::Communicator& communicator, absl::Status status);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_REPORT_FAILURE_H_
