#ifndef MILLRACE_PIPELINE_STAGES_MIXING_H_
#define MILLRACE_PIPELINE_STAGES_MIXING_H_

#include <memory>

#include "augment/batch_mixing.h"
#include "pipeline/batch_op.h"
#include "pipeline/plan/check.h"

// The stages that mix rows of whole batches: mixup, cutmix, mixup_or_cutmix (docs/semantics.md,
// S-MIX).

namespace millrace::pipeline {

// REQUIRES: MixesRows(stage), and defaults are filled in.
augment::BatchMixingOptions MixingOptionsOf(const proto::Stage& stage);
// Of integer labels that become one_hot before the batch; 0: they are float32 [classes] already.
uint32_t NumClassesOf(const proto::Stage& stage);

// The op of the program that works on whole batches.
std::unique_ptr<BatchOp> MakeMixing(augment::BatchMixingOptions options);

// What a stage that mixes leaves out.
void FillMixing(proto::Stage* stage);
// The part of CheckImageOptions for stages that mix.
absl::Status CheckMixingOptions(const PipelineAt& at, int stage);
// The part of CheckPlan: groups fit the batches, and rows are where they are in every world.
absl::Status CheckMixing(const PlanMessage& plan);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_MIXING_H_
