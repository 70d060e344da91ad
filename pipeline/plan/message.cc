#include "pipeline/plan/message.h"

#include <google/protobuf/text_format.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace millrace::pipeline {

std::string PlanMessage::Where(int stage) const { return PipelineAt::Whole(*this).Where(stage); }

std::string PlanMessage::Where(int stage, std::string_view field, int index) const {
  return PipelineAt::Whole(*this).Where(stage, field, index);
}

std::string PipelineAt::At(std::vector<FieldStep> steps) const {
  steps.insert(steps.begin(), path.begin(), path.end());
  return plan->locations.At(steps);
}

std::string PipelineAt::Where(int stage, std::string_view field, int index) const {
  return At({{"stage", stage}, {OpName(pipeline->stage(stage))}, {field, index}});
}

std::vector<PipelineAt> PipelineAt::Inputs(int stage) const {
  std::vector<PipelineAt> inputs;
  const auto* pipelines = InputsOf(pipeline->stage(stage));
  if (pipelines == nullptr) return inputs;
  for (int k = 0; k < pipelines->size(); ++k) {
    std::vector<FieldStep> down = path;
    down.push_back({"stage", stage});
    down.push_back({OpName(pipeline->stage(stage))});
    down.push_back({"input", k});
    inputs.push_back({plan, &pipelines->Get(k), std::move(down)});
  }
  return inputs;
}

const std::string& OpName(const proto::Stage& stage) {
  return proto::Stage::descriptor()->FindFieldByNumber(stage.op_case())->name();
}

const google::protobuf::RepeatedPtrField<proto::Pipeline>* InputsOf(const proto::Stage& stage) {
  if (stage.has_concatenate()) return &stage.concatenate().input();
  if (stage.has_mix()) return &stage.mix().input();
  if (stage.has_zip()) return &stage.zip().input();
  return nullptr;
}

google::protobuf::RepeatedPtrField<proto::Pipeline>* MutableInputsOf(proto::Stage* stage) {
  if (stage->has_concatenate()) return stage->mutable_concatenate()->mutable_input();
  if (stage->has_mix()) return stage->mutable_mix()->mutable_input();
  if (stage->has_zip()) return stage->mutable_zip()->mutable_input();
  return nullptr;
}

std::string TextOf(const proto::Pipeline& pipeline) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  // Fails only when its output stream does, which a string never does.
  printer.PrintToString(pipeline, &text);
  return absl::StrReplaceAll(text, {{"$", "$$"}});
}

absl::Status ErrorAt(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

}  // namespace millrace::pipeline
