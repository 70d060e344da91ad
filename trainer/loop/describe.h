#ifndef MILLRACE_TRAINER_LOOP_DESCRIBE_H_
#define MILLRACE_TRAINER_LOOP_DESCRIBE_H_

#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "trainer/loop/session.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The start-up table: every setting as it was resolved, so that a run can be judged and repeated
// from its log alone.
std::vector<std::string> DescribeSession(const Session& session, const TrainOptions& options,
                                         const collectives::Communicator& communicator);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_DESCRIBE_H_
