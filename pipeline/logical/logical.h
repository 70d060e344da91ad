#ifndef MILLRACE_PIPELINE_LOGICAL_LOGICAL_H_
#define MILLRACE_PIPELINE_LOGICAL_LOGICAL_H_

#include "absl/status/status.h"
#include "pipeline/plan/message.h"

// How a parsed text becomes a Plan: fill in defaults, check, pin the files that belong to it.

namespace millrace::pipeline {

// Names unnamed stages and sets the options that the text leaves out. Stages without an op stay as
// they are.
void FillDefaults(proto::Pipeline* pipeline);

// Checks names, the order of stages and the range of every option. INVALID_ARGUMENT with the place
// of the first that is wrong. REQUIRES: FillDefaults.
absl::Status CheckPlan(const PlanMessage& plan);

// The part of CheckPlan that says which stages may stand where, inputs of joins included.
absl::Status CheckStageOrder(const PlanMessage& plan);
// And the part for stages that mix rows: groups fit the batches, and rows are where they are in
// every world.
absl::Status CheckBatchMixing(const PlanMessage& plan);

// Reads every vocabulary's file, each once, and sets the digest where the text has none, so that
// the fingerprint covers the file's bytes. INVALID_ARGUMENT with the place of the first that cannot
// be read, is no vocabulary, or has another digest than the text says. REQUIRES: CheckPlan.
absl::Status PinVocabularies(PlanMessage* plan);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_LOGICAL_LOGICAL_H_
