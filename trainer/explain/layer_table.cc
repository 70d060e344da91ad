#include "trainer/explain/layer_table.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/number_text.h"

namespace millrace::trainer {
namespace {

constexpr size_t kColumns = 8;
constexpr size_t kFirstNumber = 5;  // numbers stand at the right of their columns
using Line = std::array<std::string, kColumns>;

int64_t BytesOf(const Value& value) {
  return value.shape.num_elements() * static_cast<int64_t>(sizeof(float));
}

std::string BytesCell(const Value& value) { return BytesText(static_cast<double>(BytesOf(value))); }

int64_t ParametersOf(const Model& model, const Layer& layer) {
  int64_t count = 0;
  for (const int parameter : {layer.weights, layer.bias}) {
    if (parameter >= 0) count += model.parameters[parameter].shape.num_elements();
  }
  return count;
}

// The names of what a layer reads; empty: the result of the line above.
std::string Reads(const Model& model, const std::vector<int>& inputs, int above) {
  if (inputs.size() == 1 && inputs[0] == above) return "";
  std::string names;
  for (const int input : inputs) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", model.values[input].name);
  }
  return names;
}

Line LineOf(const Model& model, const Layer& layer, int host) {
  const Value& result = model.values[layer.output];
  const int64_t parameters = ParametersOf(model, layer);
  const int64_t flops = 2 * layer.multiply_adds;
  return {layer.name,
          layer.KindText(),
          Reads(model, layer.inputs, layer.output - 1),
          host >= 0 ? model.layers[host].name : "",
          result.shape.ToString(),
          parameters > 0 ? Grouped(parameters) : "",
          flops > 0 ? WithUnit(static_cast<double>(flops)) : "",
          BytesCell(result)};
}

std::vector<Line> LinesOf(const Model& model, const std::vector<int>& fused_into) {
  std::vector<Line> lines = {
      {"layer", "kind", "reads", "fused into", "result", "parameters", "FLOPs", "bytes/sample"}};
  std::vector<Line> by_value(model.values.size());
  for (const ModelInput& input : model.inputs) {
    const Value& value = model.values[input.value];
    by_value[input.value] = {value.name, "input", input.field,     "", value.shape.ToString(),
                             "",         "",      BytesCell(value)};
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    by_value[model.layers[i].output] = LineOf(model, model.layers[i], fused_into[i]);
  }
  lines.insert(lines.end(), by_value.begin(), by_value.end());
  const int last = static_cast<int>(model.values.size()) - 1;
  for (const Loss& loss : model.losses) {
    lines.push_back(
        {loss.name, KindName(loss.kind), Reads(model, {loss.input}, last), "", "", "", "", ""});
  }
  return lines;
}

}  // namespace

std::string WithUnit(double number) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (number >= 1000 && unit + 1 < std::size(kUnits)) {
    number /= 1000;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f", number)
                   : absl::StrFormat("%.2f%s", number, kUnits[unit]);
}

ModelCost CostOf(const Model& model) {
  ModelCost cost;
  for (const Layer& layer : model.layers) cost.flops += 2 * layer.multiply_adds;
  for (const Value& value : model.values) cost.result_bytes += BytesOf(value);
  return cost;
}

std::vector<std::string> LayerTable(const Model& model, const std::vector<int>& fused_into) {
  const std::vector<Line> lines = LinesOf(model, fused_into);
  std::array<size_t, kColumns> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::vector<std::string> table;
  for (const Line& line : lines) {
    std::string text;
    for (size_t i = 0; i < kColumns; ++i) {
      const int width = static_cast<int>(widths[i]);
      absl::StrAppendFormat(&text, "%*s  ", i < kFirstNumber ? -width : width, line[i]);
    }
    table.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
  }
  return table;
}

}  // namespace millrace::trainer
