#ifndef MILLRACE_PIPELINE_PLAN_MESSAGE_H_
#define MILLRACE_PIPELINE_PLAN_MESSAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/pipeline.pb.h"
#include "pipeline/text_proto.h"

// The content of a Plan, and the place of each part of it in the text.

namespace millrace::augment {
class Vocabulary;
}

namespace millrace::pipeline {

inline constexpr uint32_t kSemanticsVersion = 1;

// Where a stage belongs (docs/semantics.md, S-PLAN-3). A cut changes how many samples there are by
// looking at them, a window without.
enum class StageKind { kSource, kOrder, kMap, kCut, kWindow, kBatch, kPrefetch };

struct PlanMessage {
  proto::Pipeline pipeline;  // every default filled in
  TextLocations locations;
  // The vocabularies that PinVocabularies has read, by file, for the ops of every pass.
  std::map<std::string, std::shared_ptr<const augment::Vocabulary>> vocabularies;

  // "FILE:LINE:COLUMN" of stage i, or of a field of its op.
  std::string Where(int stage) const;
  std::string Where(int stage, std::string_view field, int index = -1) const;
};

// The whole plan, or an input of a concatenate, mix or zip somewhere in it. Borrows the plan.
struct PipelineAt {
  const PlanMessage* plan;
  const proto::Pipeline* pipeline;
  std::vector<FieldStep> path;  // from the whole plan down to here

  static PipelineAt Whole(const PlanMessage& plan) { return {&plan, &plan.pipeline, {}}; }
  bool is_whole() const { return path.empty(); }
  // "FILE:LINE:COLUMN" of `steps` below this pipeline.
  std::string At(std::vector<FieldStep> steps) const;
  std::string Where(int stage) const { return At({{"stage", stage}}); }
  std::string Where(int stage, std::string_view field, int index = -1) const;
  // The inputs of stage i, in order; none when it is no concatenate, mix or zip.
  std::vector<PipelineAt> Inputs(int stage) const;
};

// Text that Plan::FromText reads back.
std::string TextOf(const proto::Pipeline& pipeline);

// The name of the stage's op as the text has it ("decode_image"). REQUIRES: the op is set.
const std::string& OpName(const proto::Stage& stage);
// The inputs of a concatenate, mix or zip; null for any other op.
const google::protobuf::RepeatedPtrField<proto::Pipeline>* InputsOf(const proto::Stage& stage);
google::protobuf::RepeatedPtrField<proto::Pipeline>* MutableInputsOf(proto::Stage* stage);

// INVALID_ARGUMENT "WHERE: what".
absl::Status ErrorAt(const std::string& where, const std::string& what);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_MESSAGE_H_
