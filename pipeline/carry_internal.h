#ifndef MILLRACE_PIPELINE_CARRY_INTERNAL_H_
#define MILLRACE_PIPELINE_CARRY_INTERNAL_H_

#include "absl/status/status.h"
#include "pipeline/ops_from_plan_internal.h"
#include "pipeline/plan_message_internal.h"

// `boxes` and `mask` of the stages that move pixels.

namespace millrace::pipeline {

// Default values of `boxes`, where it is there.
void FillCarried(proto::Stage* stage);
absl::Status CheckCarried(const PipelineAt& at, int stage);

// The options themselves, or those of the same op that carries what the stage names.
OpOptions WithCarried(const proto::Stage& stage, OpOptions options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CARRY_INTERNAL_H_
