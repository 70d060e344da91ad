#include "pipeline/explain/explain.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/plan/message.h"

// The logical half; what runs is in physical.cc, what the files hold in facts.cc.

namespace millrace::pipeline {
namespace {

std::string OptionsText(const google::protobuf::Message& op) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string options;
  printer.PrintToString(op, &options);
  while (options.ends_with(' ')) options.pop_back();
  return options;
}

}  // namespace

std::string StageOptionsText(const proto::Stage& stage) {
  if (stage.has_concatenate()) return "";
  if (stage.has_mix()) {
    proto::Mix mix = stage.mix();
    mix.clear_input();
    return OptionsText(mix);
  }
  if (stage.has_zip()) {
    proto::Zip zip = stage.zip();
    zip.clear_input();
    return OptionsText(zip);
  }
  return OptionsText(stage.GetReflection()->GetMessage(
      stage, stage.GetDescriptor()->FindFieldByNumber(stage.op_case())));
}

namespace {

// "resize  field: "image" height: 8 width: 8"
std::string StageLine(const proto::Stage& stage) {
  const std::string options = StageOptionsText(stage);
  const std::string& op_name = OpName(stage);
  const std::string title =
      stage.name() == op_name ? op_name : absl::StrCat(stage.name(), " (", op_name, ")");
  return options.empty() ? title : absl::StrFormat("%-22s  %s", title, options);
}

// The stages of the plan, and below a join those of its inputs: "1.2.3" is stage 3 of input 2 of
// stage 1.
void AppendStages(const proto::Pipeline& pipeline, const std::string& prefix, std::string* text) {
  for (int i = 0; i < pipeline.stage_size(); ++i) {
    const proto::Stage& stage = pipeline.stage(i);
    const std::string number = absl::StrCat(prefix, i + 1);
    absl::StrAppendFormat(text, "%s%2s  %s\n", prefix.empty() ? "  " : "      ", number,
                          StageLine(stage));
    const auto* inputs = InputsOf(stage);
    if (inputs == nullptr) continue;
    for (int k = 0; k < inputs->size(); ++k) {
      AppendStages(inputs->Get(k), absl::StrCat(number, ".", k + 1, "."), text);
    }
  }
}

void AppendLogical(const Plan& plan, std::string* text) {
  const proto::Pipeline& pipeline = plan.message().pipeline;
  absl::StrAppendFormat(text, "Logical plan%s  fingerprint %016x, seed %d, semantics %d",
                        pipeline.name().empty() ? "" : absl::StrCat(" \"", pipeline.name(), "\""),
                        plan.Fingerprint(), pipeline.seed(), pipeline.semantics_version());
  if (pipeline.lanes() > 1) absl::StrAppend(text, ", lanes ", pipeline.lanes());
  absl::StrAppend(text, "\n");
  AppendStages(pipeline, "", text);
  const std::string performance = OptionsText(pipeline.performance());
  if (!performance.empty()) absl::StrAppend(text, "  performance  ", performance, "\n");
}

void AppendRules(const PhysicalPlan& physical, std::string* text) {
  absl::StrAppend(text, "\nRules\n");
  for (const std::string& rule : physical.rules) absl::StrAppend(text, "  ", rule, "\n");
  if (physical.rules.empty()) absl::StrAppend(text, "  none fired\n");
}

}  // namespace

std::string ExplainText(const Plan& plan, const PhysicalPlan& physical,
                        const std::optional<SourceFacts>& facts) {
  std::string text;
  AppendLogical(plan, &text);
  AppendRules(physical, &text);
  text += PhysicalText(physical);
  if (facts) text += FactsText(physical, *facts);
  return text;
}

}  // namespace millrace::pipeline
