#include "pipeline/explain/stage_lookup.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {

const google::protobuf::Message& OptionsOf(const proto::Stage& stage) {
  return stage.GetReflection()->GetMessage(
      stage, stage.GetDescriptor()->FindFieldByNumber(stage.op_case()));
}

std::vector<std::string> StringsOf(const google::protobuf::Message& options,
                                   const std::string& name) {
  const auto* field = options.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
    return {};
  }
  const auto* reflection = options.GetReflection();
  if (!field->is_repeated()) return {reflection->GetString(options, field)};
  std::vector<std::string> values;
  for (int i = 0; i < reflection->FieldSize(options, field); ++i) {
    values.push_back(reflection->GetRepeatedString(options, field, i));
  }
  return values;
}

std::vector<std::string> FieldsOf(const proto::Stage& stage) {
  const google::protobuf::Message& options = OptionsOf(stage);
  std::vector<std::string> fields = StringsOf(options, "field");
  // Elsewhere "mask" is the name of a field that is made (pad_tokens).
  if (options.GetDescriptor()->FindFieldByName("boxes") == nullptr) return fields;
  for (std::string& mask : StringsOf(options, "mask")) {
    if (!mask.empty()) fields.push_back(std::move(mask));
  }
  return fields;
}

bool WorksOn(const proto::Stage& stage, const std::string& field) {
  const std::vector<std::string> fields = FieldsOf(stage);
  return std::ranges::find(fields, field) != fields.end();
}

RandomStream DrawsOf(const proto::Pipeline& pipeline, const proto::Stage& stage,
                     const SampleId& id) {
  return RandomStream({.seed = pipeline.seed(),
                       .op = HashName(stage.name()),
                       .epoch = id.epoch,
                       .record = id.record,
                       .sub_index = id.sub_index});
}

bool DrawsForElements(const proto::Pipeline& pipeline, int stage) {
  return std::ranges::any_of(pipeline.stage().begin() + stage, pipeline.stage().end(),
                             [](const proto::Stage& behind) { return behind.has_window(); });
}

}  // namespace millrace::pipeline
