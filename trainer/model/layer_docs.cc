#include "trainer/model/layer_docs.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/model/layers/losses.h"
#include "trainer/model/layers/table.h"

namespace millrace::trainer {
namespace {

using google::protobuf::FieldDescriptor;

constexpr std::string_view kBegin = "<!-- layers -->\n";
constexpr std::string_view kEnd = "<!-- end of layers -->\n";

constexpr LayerOption kInputOptions[] = {
    {"field", "field of the batch", "`image`"},
    {"shape", "of a sample: height, width, channels, or one number", kRequired},
    {"dtype",
     "type of the field, whose values become float32: `\"float32\"`, `\"uint8\"`, `\"float16\"`, "
     "`\"bfloat16\"`, `\"int32\"` or `\"int64\"`",
     "`\"float32\"`"},
    {"mean", "of uint8: each value becomes (value - mean) / stddev; one number, or one per channel",
     "0"},
    {"stddev", "likewise", "1"},
};

std::vector<LayerDoc> AllDocs() {
  std::vector<LayerDoc> docs = {
      {LayerSpec::kInputLayer, "Takes a field of the batch. It reads no layer.", kInputOptions}};
  for (const LayerFamily family : LayerFamilies()) {
    for (const LayerRow& row : family) docs.push_back({row.kind, row.doc, row.options});
  }
  const auto losses = LossDocs();
  docs.insert(docs.end(), losses.begin(), losses.end());
  return docs;
}

const FieldDescriptor& FieldOf(LayerSpec::KindCase kind) {
  return *LayerSpec::descriptor()->FindFieldByNumber(kind);
}

std::string Table() {
  std::string table = "| layer | options | default |\n| --- | --- | --- |\n";
  for (const LayerDoc& doc : AllDocs()) {
    absl::StrAppend(&table, "| `", FieldOf(doc.kind).name(), "` | ", doc.doc, " | |\n");
    for (const LayerOption& option : doc.options) {
      absl::StrAppend(&table, "| | `", option.name, "`", *option.text == '\0' ? "" : ": ",
                      option.text, " | ", option.value, " |\n");
    }
  }
  return table;
}

absl::Status CheckDoc(const LayerDoc& doc) {
  const auto& message = *FieldOf(doc.kind).message_type();
  for (const LayerOption& option : doc.options) {
    if (message.FindFieldByName(option.name) == nullptr) {
      return absl::InternalError(absl::StrCat(message.name(), " has no field ", option.name));
    }
  }
  for (int i = 0; i < message.field_count(); ++i) {
    const std::string& name = message.field(i)->name();
    if (std::ranges::none_of(doc.options, [&](const LayerOption& o) { return o.name == name; })) {
      return absl::InternalError(absl::StrCat(message.name(), " has no option ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> WithLayerTable(std::string_view markdown) {
  const size_t begin = markdown.find(kBegin);
  const size_t end = markdown.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return absl::InvalidArgumentError("the page has no place for the table of layers");
  }
  return absl::StrCat(ToAbsl(markdown.substr(0, begin + kBegin.size())), Table(),
                      ToAbsl(markdown.substr(end)));
}

absl::Status CheckLayerDocs() {
  for (const LayerDoc& doc : AllDocs()) MILLRACE_RETURN_IF_ERROR(CheckDoc(doc));
  const auto& kinds = *LayerSpec::descriptor()->FindOneofByName("kind");
  if (static_cast<size_t>(kinds.field_count()) == AllDocs().size()) return absl::OkStatus();
  return absl::InternalError("a kind of layer is in no table");
}

}  // namespace millrace::trainer
