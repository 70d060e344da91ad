#ifndef MILLRACE_PIPELINE_PLAN_MESSAGE_INTERNAL_H_
#define MILLRACE_PIPELINE_PLAN_MESSAGE_INTERNAL_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "pipeline/pipeline.pb.h"
#include "pipeline/text_proto_internal.h"

// What is inside a Plan, and the steps that make it: fill in defaults, then check.

namespace millrace::pipeline {

inline constexpr uint32_t kSemanticsVersion = 1;

// Where a stage belongs (docs/semantics.md, S-PLAN-3).
enum class StageKind { kSource, kOrder, kMap, kBatch, kPrefetch };

struct PlanMessage {
  proto::Pipeline pipeline;  // every default filled in
  TextLocations locations;

  // "FILE:LINE:COLUMN" of stage i, or of a field of its op.
  std::string Where(int stage) const;
  std::string Where(int stage, std::string_view field, int index = -1) const;
};

// The name of the stage's op as the text has it ("decode_image"). REQUIRES: the op is set.
const std::string& OpName(const proto::Stage& stage);
// REQUIRES: the op is set.
StageKind KindOf(const proto::Stage& stage);

// Names unnamed stages and sets what the text leaves out. Stages without an op stay as they are.
void FillDefaults(proto::Pipeline* pipeline);

// Checks names, the order of stages and the range of every option. INVALID_ARGUMENT with the place
// of the first that is wrong. REQUIRES: FillDefaults.
absl::Status CheckPlan(const PlanMessage& plan);
// The part of CheckPlan that looks at one stage's options.
absl::Status CheckStageOptions(const PlanMessage& plan, int stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_MESSAGE_INTERNAL_H_
