#include "trainer/model/joint.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::trainer {
namespace {

void Shift(int by, int& index) {
  if (index >= 0) index += by;
}

template <typename T>
void Append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

void Take(Model model, Model& joint) {
  const auto values = static_cast<int>(joint.values.size());
  const auto parameters = static_cast<int>(joint.parameters.size());
  const auto buffers = static_cast<int>(joint.buffers.size());
  for (ModelInput& input : model.inputs) Shift(values, input.value);
  for (Loss& loss : model.losses) Shift(values, loss.input);
  for (Layer& layer : model.layers) {
    for (int& input : layer.inputs) Shift(values, input);
    Shift(values, layer.output);
    Shift(parameters, layer.weights);
    Shift(parameters, layer.bias);
    Shift(buffers, layer.mean);
    Shift(buffers, layer.variance);
  }
  Append(model.values, joint.values);
  Append(model.inputs, joint.inputs);
  Append(model.layers, joint.layers);
  Append(model.losses, joint.losses);
  Append(model.parameters, joint.parameters);
  Append(model.buffers, joint.buffers);
}

}  // namespace

void AddPrefix(std::string_view prefix, Model& model) {
  const auto add = [prefix](std::string& name) {
    name = absl::StrCat(std::string(prefix), "/", name);
  };
  for (Value& value : model.values) add(value.name);
  for (Layer& layer : model.layers) add(layer.name);
  for (Loss& loss : model.losses) add(loss.name);
  for (Parameter& parameter : model.parameters) add(parameter.name);
  for (Buffer& buffer : model.buffers) add(buffer.name);
}

Model Join(std::span<const Model> models) {
  Model joint = models[0];
  for (const Model& model : models.subspan(1)) Take(model, joint);
  return joint;
}

}  // namespace millrace::trainer
