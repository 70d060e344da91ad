#ifndef MILLRACE_TRAINER_LOOP_RUNNING_STEP_H_
#define MILLRACE_TRAINER_LOOP_RUNNING_STEP_H_

#include <string>
#include <vector>

#include "trainer/loop/batch_statistics.h"
#include "trainer/loop/run_log.h"

namespace millrace::trainer {

// A step whose sums have not been used yet, on this rank.
struct RunningStep {
  std::string resume_token;  // of its last batch
  RunLog::Step counted;
  std::vector<BatchStatistics> statistics;  // by model
  std::string bad_layer;  // the first with values that are not finite, if the loss is not
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_RUNNING_STEP_H_
