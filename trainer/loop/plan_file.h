#ifndef MILLRACE_TRAINER_LOOP_PLAN_FILE_H_
#define MILLRACE_TRAINER_LOOP_PLAN_FILE_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/plan.h"

namespace millrace::trainer {

// Numbers of a plan, for the start-up table.
struct PlanNumbers {
  uint64_t batch = 0;  // rows, over all ranks; 0: buckets of several sizes
  uint64_t seed = 0;
  uint32_t prefetch = 0;  // batches made ahead; 0: not set in the plan
};

// Reads one of the plans of a job, which has several files: the plan gets those of the variables
// that it names, and their names are added to `used`.
//   the errors of Plan::FromFile
absl::StatusOr<pipeline::Plan> LoadPlan(const std::string& path,
                                        const pipeline::Variables& variables,
                                        std::set<std::string>& used, PlanNumbers& numbers);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_PLAN_FILE_H_
