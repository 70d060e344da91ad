#include "pipeline/stage_docs.h"

#include <google/protobuf/text_format.h>

#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/explain/stage_lookup.h"
#include "pipeline/stages/table.h"

namespace millrace::pipeline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kBegin = "<!-- stages: ";
constexpr std::string_view kBeginEnd = " -->";
constexpr std::string_view kEnd = "<!-- end of stages -->";

// A stage of which the text says nothing but its op, with the defaults filled in.
proto::Stage BareStage(const StageRow& row) {
  proto::Stage stage;
  const FieldDescriptor* const op = stage.GetDescriptor()->FindFieldByNumber(row.op_case);
  stage.GetReflection()->MutableMessage(&stage, op);
  if (row.fill != nullptr) row.fill(&stage);
  return stage;
}

std::string ValueText(const Message& options, const FieldDescriptor* field, int index) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(options, field, index, &text);
  return field->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? absl::StrCat("`", text, "`") : text;
}

// The value of the field in words: "`"image"`", "0.02, 0.33", "none".
std::string ValuesText(const Message& options, const FieldDescriptor* field) {
  const auto* const reflection = options.GetReflection();
  if (field->is_repeated()) {
    std::vector<std::string> values;
    for (int i = 0; i < reflection->FieldSize(options, field); ++i) {
      values.push_back(ValueText(options, field, i));
    }
    return values.empty() ? "none" : absl::StrJoin(values, ", ");
  }
  if (field->has_presence() && !reflection->HasField(options, field)) return "none";
  return ValueText(options, field, -1);
}

std::string DefaultOf(const proto::Stage& stage, const Option& option) {
  if (option.value != nullptr) return option.value;
  const Message& options = OptionsOf(stage);
  return ValuesText(options, options.GetDescriptor()->FindFieldByName(option.name));
}

// The row's sentence, and whether the stage is random.
std::string DocOf(const StageRow& row) {
  const bool draws = row.op != nullptr && row.op->draws;
  return absl::StrCat(row.doc, draws ? " Draws at random." : "");
}

// Calls `f` with each option of the stage and its default.
template <typename Function>
void ForEachOption(const StageRow& row, const Function& f) {
  const proto::Stage bare = BareStage(row);
  for (const Option& option : row.options) {
    if (option.name != nullptr) f(option, DefaultOf(bare, option));
  }
}

std::string TableOf(const StageFamily& family) {
  std::string table = "| stage | options | default |\n| --- | --- | --- |\n";
  for (const StageRow& row : family.rows) {
    absl::StrAppend(&table, "| `", row.name, "` | ", DocOf(row), " | |\n");
    ForEachOption(row, [&](const Option& option, const std::string& value) {
      absl::StrAppend(&table, "| | `", option.name, "`", *option.text == '\0' ? "" : ": ",
                      option.text, " | ", value, " |\n");
    });
  }
  return table;
}

// Markdown as a terminal shows it: without links and marks of code.
std::string Plain(std::string text) {
  for (size_t at; (at = text.find(" ([")) != std::string::npos;) {
    text.erase(at, text.find("))", at) + 2 - at);
  }
  std::erase(text, '`');
  return text;
}

const StageFamily* FindFamily(std::string_view key) {
  for (const StageFamily* family : StageFamilies()) {
    if (family->key == key) return family;
  }
  return nullptr;
}

// The key in a line that begins a table; empty: it begins none.
std::string_view FamilyKeyOf(std::string_view line) {
  if (!line.starts_with(kBegin) || !line.ends_with(kBeginEnd)) return {};
  line.remove_prefix(kBegin.size());
  line.remove_suffix(kBeginEnd.size());
  return line;
}

}  // namespace

std::string StagesText() {
  std::string text;
  for (const StageFamily* family : StageFamilies()) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", family->title, "\n");
    for (const StageRow& row : family->rows) {
      absl::StrAppendFormat(&text, "  %-24s %s\n", row.name, Plain(DocOf(row)));
      ForEachOption(row, [&](const Option& option, const std::string& value) {
        absl::StrAppendFormat(&text, "    %-22s %s%s[%s]\n", option.name, Plain(option.text),
                              *option.text == '\0' ? "" : " ", Plain(value));
      });
    }
  }
  return text;
}

absl::StatusOr<std::string> WithStageTables(std::string_view markdown) {
  std::string page;
  std::set<std::string> seen;
  bool in_table = false;
  std::istringstream lines{std::string(markdown)};
  for (std::string line; std::getline(lines, line);) {
    if (line == kEnd) in_table = false;
    if (!in_table) absl::StrAppend(&page, line, "\n");
    const std::string_view key = FamilyKeyOf(line);
    if (key.empty()) continue;
    const StageFamily* const family = FindFamily(key);
    if (family == nullptr || in_table || !seen.insert(family->key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", line, "\": no family of stages, a second table, or one in another"));
    }
    absl::StrAppend(&page, TableOf(*family));
    in_table = true;
  }
  if (in_table) return absl::InvalidArgumentError("the last table has no end");
  for (const StageFamily* family : StageFamilies()) {
    if (seen.contains(family->key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no table of the stages \"", family->key, "\""));
  }
  return page;
}

}  // namespace millrace::pipeline
