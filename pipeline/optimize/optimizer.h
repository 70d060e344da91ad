#ifndef MILLRACE_PIPELINE_OPTIMIZE_OPTIMIZER_H_
#define MILLRACE_PIPELINE_OPTIMIZE_OPTIMIZER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/plan.h"
#include "pipeline/plan/physical.h"
#include "pipeline/stages/specs.h"

// Logical plan in, physical plan out. Every rewrite is a rule with a name: its own function, its
// own tests, a line in explain, and no effect on any bit of a batch.

namespace millrace::pipeline {

struct OptimizerOptions {
  // performance only: results are the same for every value
  // True if the rule of that name is applied.
  bool project = true;
  bool decode_region = true;
  bool map_into_batch = true;
  bool fuse_image = true;

  // Behaviour: makes the ops of custom stages; without one they are INVALID_ARGUMENT. Called twice
  // for an op that both passes of a plan with a cut need.
  CustomFactory custom = nullptr;
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
// Makes a decode_image that is followed at once by a crop of its output one op, which decodes only
// what the crop keeps. Disabled, it leaves them apart, but for dct_downscale, which one op alone
// can do, and tells the first of the second, on which its verdict depends (S-ROUND-2).
void DecodeRegionRule(bool enabled, std::vector<OpSpec>* specs, std::vector<std::string>* fired);
// Makes ops on one uint8 or float32 image that follow each other one op: a crop or resize, or a
// pair of DecodeRegionRule, and the flips, normalize, casts, pad_channels and transpose behind it.
// `before[i]` is the schema before specs[i]; both are shortened alike.
void FuseImageRule(std::vector<OpSpec>* specs, std::vector<Schema>* before,
                   std::vector<std::string>* fired);
// Lets the op that writes a batch's field last store it into the batch, if its shape is the same
// for every sample. `specs` are those of plan->ops.
void MapIntoBatchRule(const std::vector<OpSpec>& specs, PhysicalPlan* plan);

// The steps of MakePhysicalPlan, each in its file.

// "WHERE: stage "NAME": what", INVALID_ARGUMENT.
absl::Status StageError(const std::string& where, const std::string& stage,
                        const std::string& what);
// Annotates an error of the stage in the same way; NOT_FOUND (of a field) becomes INVALID_ARGUMENT,
// for it is the plan's fault.
absl::Status AtStage(const std::string& where, const std::string& stage,
                     const absl::Status& status);

// Sources, order, steps behind the cut, lanes, batch, batch ops and prefetch. A cut is there
// afterwards when the stages have one. Returns the number of the batch stage.
int FillFromStages(const PlanMessage& message, PhysicalPlan* plan);

// Makes ops; knows what to do with custom ones.
class OpMaker {
 public:
  // Borrows both.
  OpMaker(const OpFactory& factory, const CustomFactory& custom)
      : factory_(factory), custom_(custom) {}
  // Makes the op, resolves it and moves `schema` behind it. Errors name the stage.
  absl::StatusOr<PhysicalOp> Make(const OpSpec& spec, Schema* schema) const;

 private:
  // Checks the options and the field of the decode_image alone, in the name of its stage.
  absl::Status CheckDecode(const DecodeRegionOptions& pair, const Schema& schema) const;

  const OpFactory& factory_;
  const CustomFactory& custom_;
};

// Checks that the batch can hold samples of `schema`; `message` is for places. Puts what pass 1 has
// to tell into plan->cut (making one, if the batch needs it).
absl::Status FillBatch(const PlanMessage& message, int batch_stage, PhysicalPlan* plan);

// The steps of pass 1: what filters, unbatch and extents need, and nothing else. `before[i]` is the
// schema before specs[i], and one more behind the last. REQUIRES: plan->cut, FillBatch.
absl::Status FillExamine(const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                         const OpMaker& maker, PhysicalPlan* plan);

// The ops of FillExamine, shrunk to what pass 1 wants, and its cuts, in order. A line for each
// decision goes to `rules`.
std::vector<OpSpec> SpecsOfExamine(const std::vector<OpSpec>& specs,
                                   const std::vector<Schema>& before, const CutPlan& cut,
                                   std::vector<std::string>* rules);

// Makes plan->lengths if the batch keeps them. REQUIRES: FillExamine.
//   INVALID_ARGUMENT  a stage stands in front of the batch whose outcome cannot be kept
absl::Status FillLengths(const PlanMessage& message, int batch_stage,
                         const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                         const OpMaker& maker, PhysicalPlan* plan);

// Makes plan->select from the filters that are materialized, with the ops that they need, if there
// are any. REQUIRES: in front of the last of them there are only parse_example, decode_raw and such
// filters.
absl::Status FillSelect(const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                        const OpMaker& maker, PhysicalPlan* plan);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OPTIMIZE_OPTIMIZER_H_
