#include "trainer/model/model.h"

#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {
namespace {

absl::Status NoField(const Schema& schema, const std::string& name, const std::string& wanted) {
  return absl::InvalidArgumentError(absl::StrCat("the model wants a field '", name, "' of ", wanted,
                                                 "; the pipeline makes {", schema.ToString(), "}"));
}

// A field of the wanted shape.
absl::Status OtherType(const Field& field, const ModelInput& input) {
  const std::string made = std::string(Name(field.dtype));
  const std::string advice =
      std::ranges::find(kInputTypes, field.dtype) == std::end(kInputTypes)
          ? "cast it in the plan"
          : absl::StrCat("give the input_layer dtype: \"", made, "\", or cast it in the plan");
  return absl::InvalidArgumentError(absl::StrCat("the model wants '", input.field, "' as ",
                                                 ToAbsl(Name(input.dtype)),
                                                 ", but the pipeline makes ", made, "; ", advice));
}

}  // namespace

int64_t Model::num_parameters() const {
  int64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.shape.num_elements();
  return total;
}

const Layer* Model::FindSynchronized() const {
  const auto found = std::ranges::find_if(layers, &Layer::is_synchronized);
  return found == layers.end() ? nullptr : &*found;
}

// The fingerprints in checkpoints are of this text: a chain shows no wiring.
std::string Model::ToText() const {
  std::string text;
  for (const ModelInput& input : inputs) {
    absl::StrAppend(&text, "input ", values[input.value].shape.ToString());
    if (input.dtype != DType::kF32) absl::StrAppend(&text, ", ", ToAbsl(Name(input.dtype)));
    if (input.dtype == DType::kU8) {
      absl::StrAppend(&text, ", mean ", absl::StrJoin(input.mean, "/"), ", stddev ",
                      absl::StrJoin(input.stddev, "/"));
    }
    text += "\n";
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
  for (const Loss& loss : losses) {
    const std::string line = loss.ToText(losses.size() == 1);
    if (line.empty()) continue;
    absl::StrAppend(&text, line, ", reads '", values[loss.input].name, "'\n");
  }
  return text;
}

uint64_t Model::Fingerprint() const {
  const std::string text = ToText();
  return XXH3_64bits(text.data(), text.size());
}

absl::StatusOr<Model> LoadModel(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used, ModelEnd end) {
  ModelSpec spec;
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::TextLocations locations,
                            pipeline::LoadTextProto(path, variables, &spec, &used));
  const auto where = [&](int layer) { return layer < 0 ? path : locations.At({{"layer", layer}}); };
  return BuildModel(spec, where, end);
}

absl::Status CheckInputFields(const Model& model, const Schema& schema) {
  for (const ModelInput& input : model.inputs) {
    const Shape& shape = model.values[input.value].shape;
    const Field* const field = schema.Find(input.field);
    if (field != nullptr && field->dtype == input.dtype && field->shape == shape) continue;
    if (field != nullptr && field->shape == shape) return OtherType(*field, input);
    return NoField(schema, input.field,
                   absl::StrCat(ToAbsl(Name(input.dtype)), " ", shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckFields(const Model& model, const Schema& schema) {
  MILLRACE_RETURN_IF_ERROR(CheckInputFields(model, schema));
  for (const Loss& loss : model.losses) {
    const Field* const field = schema.Find(loss.target);
    if (field != nullptr && loss.Accepts(field->dtype, field->shape)) continue;
    return NoField(schema, loss.target, loss.WantedTarget());
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
