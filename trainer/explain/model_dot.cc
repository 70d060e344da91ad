#include "trainer/explain/model_dot.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace millrace::trainer {
namespace {

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll(ToAbsl(text), {{"\\", "\\\\"}, {"\"", "\\\""}});
}

// A node with lines of text.
void AddNode(const std::string& name, std::string_view kind, const std::string& third,
             std::string& dot) {
  const std::string id = Escaped(name);
  absl::StrAppend(&dot, "  \"", id, "\" [label=\"", id, "\\n", Escaped(kind));
  if (!third.empty()) absl::StrAppend(&dot, "\\n", Escaped(third));
  dot += "\"];\n";
}

void AddEdge(const std::string& from, const std::string& to, std::string& dot) {
  absl::StrAppend(&dot, "  \"", Escaped(from), "\" -> \"", Escaped(to), "\";\n");
}

}  // namespace

std::string ModelDot(const Model& model) {
  std::string dot = absl::StrCat("digraph \"", Escaped(model.name), "\" {\n  node [shape=box];\n");
  for (const ModelInput& input : model.inputs) {
    const Value& value = model.values[input.value];
    AddNode(value.name, "input", value.shape.ToString(), dot);
  }
  for (const Layer& layer : model.layers) {
    AddNode(layer.name, layer.KindText(), model.values[layer.output].shape.ToString(), dot);
    for (const int input : layer.inputs) AddEdge(model.values[input].name, layer.name, dot);
  }
  for (const Loss& loss : model.losses) {
    AddNode(loss.name, KindName(loss.kind), "", dot);
    AddEdge(model.values[loss.input].name, loss.name, dot);
  }
  return dot + "}\n";
}

}  // namespace millrace::trainer
