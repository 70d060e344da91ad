#ifndef MILLRACE_PIPELINE_STAGES_BATCH_MIXING_H_
#define MILLRACE_PIPELINE_STAGES_BATCH_MIXING_H_

#include <memory>

#include "augment/batch_mixing.h"
#include "pipeline/batch_op.h"

namespace millrace::pipeline {

// The op on whole batches of mixup, cutmix and mixup_or_cutmix (docs/semantics.md, S-MIX).
std::unique_ptr<BatchOp> MakeBatchMixing(augment::BatchMixingOptions options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_BATCH_MIXING_H_
