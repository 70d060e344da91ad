#ifndef MILLRACE_PIPELINE_OPTIMIZER_INTERNAL_H_
#define MILLRACE_PIPELINE_OPTIMIZER_INTERNAL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/ops_from_plan_internal.h"
#include "pipeline/physical_plan_internal.h"
#include "pipeline/plan.h"

// Logical plan in, physical plan out. Every rewrite is a rule with a name: its own function, its
// own tests, a line in explain, and no effect on any bit of a batch.

namespace millrace::pipeline {

// performance only: results are the same for every value
struct OptimizerOptions {
  bool project = true;
  bool decode_region = true;
  bool map_into_batch = true;
};

// Turns a plan into what the executor runs.
//   INVALID_ARGUMENT  a stage does not fit the fields before it, or a field cannot be batched
//                     ("FILE:LINE:COLUMN: stage "NAME": ...")
//   other             the factory's errors, annotated in the same way
absl::StatusOr<PhysicalPlan> MakePhysicalPlan(const Plan& plan, const OptimizerOptions& options,
                                              const OpFactory& factory);
// The same with the ops of readers and augment.
absl::StatusOr<PhysicalPlan> BuildPhysicalPlan(const Plan& plan,
                                               const OptimizerOptions& options = {});

// The rules. Each appends a line to `fired` for each time it changes something.

// Does not parse features whose field is overwritten before anything reads it.
void ProjectRule(std::vector<OpSpec>* specs, std::vector<std::string>* fired);
// Makes a decode_image that is followed at once by a random_resized_crop of its output one op,
// which decodes only what the crop keeps.
void DecodeRegionRule(std::vector<OpSpec>* specs, std::vector<std::string>* fired);
// Lets the op that writes a batch's field last store it into the batch.
void MapIntoBatchRule(const std::vector<OpSpec>& specs, PhysicalPlan* plan);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OPTIMIZER_INTERNAL_H_
