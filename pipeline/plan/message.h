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

// What is inside a Plan, and the steps that make it: fill in defaults, then check.

namespace millrace::augment {
class Vocabulary;
}

namespace millrace::pipeline {

inline constexpr uint32_t kSemanticsVersion = 1;

// Where a stage belongs (docs/semantics.md, S-PLAN-3). A cut changes how many samples there are by
// looking at them.
enum class StageKind { kSource, kOrder, kMap, kCut, kBatch, kPrefetch };

struct PlanMessage {
  proto::Pipeline pipeline;  // every default filled in
  TextLocations locations;
  // What PinVocabularies has read, by file, for the ops of every pass.
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
// REQUIRES: the op is set.
StageKind KindOf(const proto::Stage& stage);
// True for a source whose files are named in `files` and have many records each: tfrecord, text,
// ...
bool ReadsFiles(const proto::Stage& stage);
// True for a map that works on whole batches: mixup, cutmix, mixup_or_cutmix.
bool MixesRows(const proto::Stage& stage);
// The inputs of a concatenate, mix or zip; null for any other op.
const google::protobuf::RepeatedPtrField<proto::Pipeline>* InputsOf(const proto::Stage& stage);

// Names unnamed stages and sets what the text leaves out. Stages without an op stay as they are.
void FillDefaults(proto::Pipeline* pipeline);

// Checks names, the order of stages and the range of every option. INVALID_ARGUMENT with the place
// of the first that is wrong. REQUIRES: FillDefaults.
absl::Status CheckPlan(const PlanMessage& plan);

// Reads every vocabulary's file, each once, and sets the digest where the text has none, so that
// the fingerprint covers what is in the file. INVALID_ARGUMENT with the place of the first that
// cannot be read, is no vocabulary, or is another than the text's digest says. REQUIRES: CheckPlan.
absl::Status PinVocabularies(PlanMessage* plan);

// The parts of CheckPlan.

// Which stages may stand where, inputs of joins included.
absl::Status CheckStageOrder(const PlanMessage& plan);
// The options of one stage.
absl::Status CheckStageOptions(const PipelineAt& at, int stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_MESSAGE_H_
