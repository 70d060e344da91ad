#ifndef MILLRACE_PIPELINE_STAGES_CARRY_H_
#define MILLRACE_PIPELINE_STAGES_CARRY_H_

#include "absl/status/status.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/specs.h"

// `boxes` and `mask` of the stages that move pixels.

namespace millrace::pipeline {

// Default values of `boxes`, where it is there.
void FillCarried(proto::Stage* stage);
absl::Status CheckCarried(const PipelineAt& at, int stage);

// The options themselves, or those of the same op that carries what the stage names.
OpOptions WithCarried(const proto::Stage& stage, OpOptions options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_CARRY_H_
