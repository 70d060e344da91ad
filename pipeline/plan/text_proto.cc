#include "pipeline/text_proto.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "pipeline/plan/text_literals.h"
#include "pipeline/plan/text_variables.h"
#include "readers/open_file.h"

namespace millrace::pipeline {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

namespace {

constexpr size_t kMaxErrors = 8;

// The byte of a tokenizer's place. Its columns count bytes from 0, with tab stops every 8.
size_t OffsetOf(std::string_view text, int line, int column) {
  size_t offset = 0;
  for (; line > 0; --line) {
    const size_t newline = text.find('\n', offset);
    if (newline == std::string_view::npos) return text.size();
    offset = newline + 1;
  }
  for (int at = 0; at < column && offset < text.size(); ++offset) {
    at += text[offset] == '\t' ? 8 - at % 8 : 1;
  }
  return offset;
}

// The text between the n-th and the next double quote of `message`, n from 0.
std::string Quoted(const std::string& message, int n) {
  const std::vector<std::string> parts = absl::StrSplit(message, '"');
  const size_t i = 2 * static_cast<size_t>(n) + 1;
  return i < parts.size() ? parts[i] : "";
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

// The enum types of fields called `field` in messages that `root` can hold.
void FindEnums(const Descriptor* root, const std::string& field, std::set<const Descriptor*>* seen,
               std::vector<const EnumDescriptor*>* enums) {
  if (!seen->insert(root).second) return;
  for (int i = 0; i < root->field_count(); ++i) {
    const FieldDescriptor* at = root->field(i);
    if (at->message_type() != nullptr) FindEnums(at->message_type(), field, seen, enums);
    if (at->enum_type() != nullptr && at->name() == field) enums->push_back(at->enum_type());
  }
}

// Collects errors by offset in the substituted text, and rewords those about names.
class Collector : public google::protobuf::io::ErrorCollector {
 public:
  Collector(std::string_view text, const Descriptor* root) : text_(text), root_(root) {}

  void AddError(int line, int column, const std::string& message) override {
    const size_t offset = OffsetOf(text_, std::max(line, 0), std::max(column, 0));
    if (message.starts_with("Message type \"") &&
        message.find("\" has no field named \"") != std::string::npos) {
      return UnknownField(offset, Quoted(message, 0), Quoted(message, 1));
    }
    if (message.starts_with("Unknown enumeration value of \"")) {
      return UnknownValue(offset, Quoted(message, 0), Quoted(message, 1));
    }
    if (message.starts_with("Interpreting non ascii codepoint ")) return BadCharacter(offset);
    if (offset == bad_character_) return;  // it is also no word
    // Inside a message the brace would close it.
    const bool is_surplus = message == "Expected identifier, got: }";
    errors_.push_back({offset, is_surplus ? "\"}\" closes nothing: no \"{\" is open" : message});
  }
  // Unknown fields arrive as warnings, so that all of them are found in one go.
  void AddWarning(int line, int column, const std::string& message) override {
    AddError(line, column, message);
  }

  const std::vector<TextError>& errors() const { return errors_; }

 private:
  void UnknownField(size_t offset, const std::string& type_name, const std::string& name) {
    const Descriptor* type = root_->file()->pool()->FindMessageTypeByName(type_name);
    const std::vector<std::string> names =
        type == nullptr ? std::vector<std::string>() : FieldNames(*type);
    const std::string in = type == nullptr ? type_name : type->name();
    Add(offset, name,
        absl::StrCat("\"", name, "\" is not a field of ", in, DidYouMean(name, names)));
  }

  void UnknownValue(size_t offset, const std::string& value, const std::string& field) {
    std::set<const Descriptor*> seen;
    std::vector<const EnumDescriptor*> enums;
    FindEnums(root_, field, &seen, &enums);
    std::vector<std::string> names;
    if (!enums.empty()) {
      for (int i = 0; i < enums[0]->value_count(); ++i) names.push_back(enums[0]->value(i)->name());
    }
    Add(offset, value,
        absl::StrCat("\"", value, "\" is not a value of ", field, DidYouMean(value, names)));
  }

  // The parser tells its bytes, one after the other.
  void BadCharacter(size_t offset) {
    const std::string_view rest = text_.substr(offset);
    const std::string_view bytes = rest.substr(0, std::max<size_t>(FirstUtf8(rest).bytes, 1));
    bad_character_ = offset;
    errors_.push_back(
        {offset, absl::StrCat("the character ", ShownText(bytes), " outside of quotes")});
  }

  // The parser is one word behind `word` when it complains about it.
  void Add(size_t offset, const std::string& word, std::string message) {
    const size_t begin = offset == 0 ? 0 : text_.rfind(word, offset - 1);
    errors_.push_back({begin == std::string_view::npos ? offset : begin, std::move(message)});
  }

  const std::string_view text_;
  const Descriptor* const root_;
  std::vector<TextError> errors_;
  size_t bad_character_ = std::string_view::npos;  // the place of the last one
};

absl::Status ErrorsAt(const std::string& origin, std::string_view text,
                      const std::vector<TextError>& errors) {
  std::string lines;
  for (size_t i = 0; i < std::min(errors.size(), kMaxErrors); ++i) {
    absl::StrAppend(&lines, i == 0 ? "" : "\n", origin, ":", LineAndColumn(text, errors[i].offset),
                    ": ", errors[i].message);
  }
  if (errors.size() > kMaxErrors) {
    absl::StrAppend(&lines, "\n", origin, ": and ", errors.size() - kMaxErrors, " more errors");
  }
  return absl::InvalidArgumentError(lines);
}

}  // namespace

struct TextLocations::Data {
  std::string origin;
  std::string original;
  SubstitutedText substituted;
  const Descriptor* root = nullptr;
  TextFormat::ParseInfoTree tree;

  std::string Place(TextFormat::ParseLocation location) const {
    const size_t offset = OffsetOf(substituted.text, location.line, location.column);
    return absl::StrCat(origin, ":", LineAndColumn(original, substituted.ToOriginal(offset)));
  }

  // The place in the substituted text of element `index` of a field of strings; nullopt: the text
  // has none.
  std::optional<size_t> StringOf(const TextFormat::ParseInfoTree& in, const FieldDescriptor* field,
                                 int index) const {
    auto left = static_cast<size_t>(std::max(index, 0));
    // A field of many elements stands there several times, and each time may be a list.
    for (int k = field->is_repeated() ? 0 : -1;; ++k) {
      const TextFormat::ParseLocation location = in.GetLocation(field, k);
      if (location.line < 0) return std::nullopt;
      const size_t name = OffsetOf(substituted.text, location.line, location.column);
      const std::vector<size_t> strings = StringsOfField(substituted.text, name);
      if (left < strings.size()) return strings[left];
      if (k < 0) return std::nullopt;
      left -= strings.size();
    }
  }
};

std::string TextLocations::At(std::span<const FieldStep> path) const {
  if (data_ == nullptr) return "";
  std::string place = data_->origin;
  const Descriptor* type = data_->root;
  const TextFormat::ParseInfoTree* tree = &data_->tree;
  for (const FieldStep& step : path) {
    const FieldDescriptor* field =
        type == nullptr ? nullptr : type->FindFieldByName(std::string(step.field));
    if (field == nullptr || tree == nullptr) break;
    const int index = field->is_repeated() ? std::max(step.index, 0) : -1;
    TextFormat::ParseLocation location = tree->GetLocation(field, index);
    // A list in brackets has one place, that of its name.
    if (location.line < 0 && index > 0) location = tree->GetLocation(field, 0);
    if (location.line >= 0) place = data_->Place(location);
    type = field->message_type();
    if (type != nullptr) tree = tree->GetTreeForNested(field, index);
  }
  return place;
}

std::optional<size_t> TextLocations::Find(std::span<const FieldStep> path) const {
  if (data_ == nullptr) return std::nullopt;
  const Descriptor* type = data_->root;
  const TextFormat::ParseInfoTree* tree = &data_->tree;
  for (size_t i = 0; i < path.size() && tree != nullptr; ++i) {
    const FieldDescriptor* field = type->FindFieldByName(std::string(path[i].field));
    if (i + 1 == path.size()) {
      const TextFormat::ParseLocation at = tree->GetLocation(field, path[i].index);
      if (at.line < 0) return std::nullopt;
      return OffsetOf(data_->substituted.text, at.line, at.column);
    }
    type = field->message_type();
    tree = tree->GetTreeForNested(field, path[i].index);
  }
  return std::nullopt;
}

bool TextLocations::IsGiven(std::span<const FieldStep> path, size_t max_offset) const {
  if (data_ == nullptr) return false;
  const Descriptor* type = data_->root;
  const TextFormat::ParseInfoTree* tree = &data_->tree;
  for (size_t i = 0; i < path.size() && tree != nullptr; ++i) {
    const FieldDescriptor* field = type->FindFieldByName(std::string(path[i].field));
    if (i + 1 < path.size()) {
      type = field->message_type();
      tree = tree->GetTreeForNested(field, path[i].index);
      continue;
    }
    const std::optional<size_t> begin = data_->StringOf(*tree, field, path[i].index);
    for (size_t at = 0; begin.has_value() && at <= max_offset; ++at) {
      if (data_->substituted.IsGivenAt(*begin + at)) return true;
    }
  }
  return false;
}

namespace {

// Checks what the text parser lets through: strings that are not UTF-8 and numbers that no value of
// an enum has.
class ValueChecker {
 public:
  explicit ValueChecker(const TextLocations& locations) : locations_(locations) {}

  absl::Status Check(const Message& message) {
    const Reflection* reflection = message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        path_.push_back({field->name(), field->is_repeated() ? i : -1});
        MILLRACE_RETURN_IF_ERROR(CheckValue(message, field, i));
        path_.pop_back();
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckValue(const Message& message, const FieldDescriptor* field, int i) {
    const Reflection* reflection = message.GetReflection();
    const bool repeated = field->is_repeated();
    if (field->message_type() != nullptr) {
      return Check(repeated ? reflection->GetRepeatedMessage(message, field, i)
                            : reflection->GetMessage(message, field));
    }
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      const std::string value = repeated ? reflection->GetRepeatedString(message, field, i)
                                         : reflection->GetString(message, field);
      if (!IsUtf8(value)) return Error(absl::StrCat(field->name(), " is not UTF-8 text"));
    }
    if (field->enum_type() == nullptr) return absl::OkStatus();
    const int value = repeated ? reflection->GetRepeatedEnumValue(message, field, i)
                               : reflection->GetEnumValue(message, field);
    if (field->enum_type()->FindValueByNumber(value) != nullptr) return absl::OkStatus();
    return Error(absl::StrCat(value, " is not a value of ", field->name()));
  }

  absl::Status Error(const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(locations_.At(path_), ": ", what));
  }

  const TextLocations& locations_;
  std::vector<FieldStep> path_;
};

// The errors of the parser, placed in the original text.
absl::Status ParseSubstituted(TextLocations::Data* data, Message* message) {
  Collector collector(data->substituted.text, data->root);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&data->tree);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(kMaxTextNesting);
  const bool parsed = parser.ParseFromString(data->substituted.text, message);
  std::vector<TextError> errors = collector.errors();
  for (TextError& error : errors) error.offset = data->substituted.ToOriginal(error.offset);
  if (!errors.empty()) return ErrorsAt(data->origin, data->original, errors);
  if (!parsed) return absl::InvalidArgumentError(absl::StrCat(data->origin, ": cannot be parsed"));
  return absl::OkStatus();
}

}  // namespace

std::string NormalizedText(std::string_view file) {
  std::string text(file.substr(ByteOrderMarkBytes(file)));
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n')) text[i] = '\n';
  }
  return text;
}

absl::StatusOr<TextLocations> ParseTextProto(std::string_view file, const std::string& origin,
                                             const std::map<std::string, std::string>& variables,
                                             Message* message, std::set<std::string>* used) {
  if (file.size() > kMaxTextProtoBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": longer than ", kMaxTextProtoBytes >> 20, " MiB"));
  }
  if (const std::string_view why = WhyNotText(file); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": ", ToAbsl(why)));
  }
  auto data = std::make_shared<TextLocations::Data>();
  data->origin = origin;
  data->original = NormalizedText(file);
  const std::string_view text = data->original;
  data->root = message->GetDescriptor();
  data->substituted = SubstituteVariables(text, variables);
  if (!data->substituted.errors.empty()) {
    return ErrorsAt(origin, text, data->substituted.errors);
  }
  MILLRACE_RETURN_IF_ERROR(ParseSubstituted(data.get(), message));
  if (used == nullptr) {
    MILLRACE_RETURN_IF_ERROR(
        Annotate(CheckVariablesUsed(variables, data->substituted.used), origin));
  } else {
    used->insert(data->substituted.used.begin(), data->substituted.used.end());
  }
  TextLocations locations(std::move(data));
  MILLRACE_RETURN_IF_ERROR(ValueChecker(locations).Check(*message));
  return locations;
}

absl::StatusOr<TextLocations> LoadTextProto(const std::string& path,
                                            const std::map<std::string, std::string>& variables,
                                            Message* message, std::set<std::string>* used) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            readers::ReadWholeFile(path, kMaxTextProtoBytes));
  return ParseTextProto(text, path, variables, message, used);
}

absl::StatusOr<NamedVariables> VariablesOf(const std::string& path,
                                           const std::map<std::string, std::string>& variables) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            readers::ReadWholeFile(path, kMaxTextProtoBytes));
  SubstitutedText substituted = SubstituteVariables(NormalizedText(text), variables);
  return NamedVariables{std::move(substituted.used), std::move(substituted.without_value)};
}

absl::Status CheckVariablesUsed(const std::map<std::string, std::string>& variables,
                                const std::set<std::string>& used) {
  const std::vector<std::string> names(used.begin(), used.end());
  for (const auto& [name, value] : variables) {
    if (used.contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", name, " is given but never used", DidYouMean(name, names)));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
