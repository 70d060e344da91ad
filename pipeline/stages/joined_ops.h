#ifndef MILLRACE_PIPELINE_STAGES_JOINED_OPS_H_
#define MILLRACE_PIPELINE_STAGES_JOINED_OPS_H_

#include "pipeline/stages/row.h"

// Ops that are no stage of their own: a stage that moves an image with its targets, and those that
// the optimizer joins from several stages.

namespace millrace::pipeline {

// REQUIRES: the options are those of such an op.
const OpRow& JoinedRowOf(const OpOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_JOINED_OPS_H_
