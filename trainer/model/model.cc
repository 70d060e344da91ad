#include "trainer/model/model.h"

#include <xxhash.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {
namespace {

absl::Status CheckField(const Schema& schema, const std::string& name, bool dtype_ok(DType),
                        std::string_view wanted_dtype, const Shape& shape) {
  const std::string wanted =
      absl::StrCat("the model wants a field '", name, "' of ", ToAbsl(wanted_dtype), " ",
                   shape.ToString(), "; the pipeline makes {", schema.ToString(), "}");
  const Field* field = schema.Find(name);
  if (field == nullptr || !dtype_ok(field->dtype) || !(field->shape == shape)) {
    return absl::InvalidArgumentError(wanted);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Model::num_parameters() const {
  int64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.shape.num_elements();
  return total;
}

// The fingerprints in checkpoints are of this text: a chain shows no wiring.
std::string Model::ToText() const {
  std::string text;
  for (const ModelInput& input : inputs) {
    absl::StrAppend(&text, "input ", values[input.value].shape.ToString(), "\n");
  }
  for (const Layer& layer : layers) {
    absl::StrAppend(&text, "layer '", layer.name, "' ", KindName(layer.kind), " to ",
                    values[layer.output].shape.ToString(), layer.AttributesText());
    const bool is_chained = layer.inputs.size() == 1 && layer.inputs[0] == layer.output - 1;
    for (const int input : layer.inputs) {
      if (!is_chained) absl::StrAppend(&text, ", reads '", values[input].name, "'");
    }
    text += "\n";
  }
  const bool is_last = losses.size() == 1 && losses[0].input + 1 == static_cast<int>(values.size());
  for (const Loss& loss : losses) {
    if (!is_last) absl::StrAppend(&text, "loss of '", values[loss.input].name, "'\n");
  }
  return text;
}

uint64_t Model::Fingerprint() const {
  const std::string text = ToText();
  return XXH3_64bits(text.data(), text.size());
}

absl::StatusOr<Model> LoadModel(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used) {
  ModelSpec spec;
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::TextLocations locations,
                            pipeline::LoadTextProto(path, variables, &spec, &used));
  return BuildModel(spec, [&](int layer) {
    return layer < 0 ? path : locations.At({{"layer", layer}});
  });
}

absl::Status CheckFields(const Model& model, const Schema& schema) {
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckField(
        schema, model.inputs[i].field, [](DType dtype) { return dtype == DType::kF32; }, "float32",
        model.input_shape(i)));
  }
  for (const Loss& loss : model.losses) {
    MILLRACE_RETURN_IF_ERROR(CheckField(
        schema, loss.target,
        [](DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }, "int64 or int32",
        Shape{}));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
