#ifndef MILLRACE_TRAINER_LOOP_DESCRIBE_H_
#define MILLRACE_TRAINER_LOOP_DESCRIBE_H_

#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "trainer/loop/session.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The lines of the start-up table: every setting as it was resolved, so that the log is enough to
// judge and repeat a run.
std::vector<std::string> DescribeSession(const Session& session, const TrainOptions& options,
                                         const collectives::Communicator& communicator);

// The job's `init_from`: "resnet18.safetensors, except fc.*", or "drawn by the seed".
std::string DescribeFirstWeights(const JobFile& job);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_DESCRIBE_H_
