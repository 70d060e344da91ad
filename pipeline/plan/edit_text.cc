#include "pipeline/edit_text.h"

#include <google/protobuf/util/message_differencer.h>

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/plan/check_edited.h"
#include "pipeline/plan/text_edit.h"
#include "pipeline/text_proto.h"

namespace millrace::pipeline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

// The field that the change may be of; null: there is none.
const FieldDescriptor* FieldOf(const Message& type, const FieldChange& change) {
  const FieldDescriptor* const field = type.GetDescriptor()->FindFieldByName(change.field);
  if (field == nullptr || field->is_repeated()) return nullptr;
  const FieldDescriptor::CppType kind = field->cpp_type();
  const bool fits = change.text.has_value() ? kind == FieldDescriptor::CPPTYPE_STRING
                                            : kind == FieldDescriptor::CPPTYPE_UINT32 ||
                                                  kind == FieldDescriptor::CPPTYPE_UINT64;
  return fits ? field : nullptr;
}

void Set(const FieldDescriptor* field, const FieldChange& change, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (change.text.has_value()) {
    reflection.SetString(&message, field, *change.text);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    reflection.SetUInt32(&message, field, static_cast<uint32_t>(change.value));
  } else {
    reflection.SetUInt64(&message, field, change.value);
  }
}

// Replaces the value of the field whose name is at `name`.
absl::Status Replace(const FieldChange& change, size_t name, TextEdit& edit) {
  if (!change.text.has_value()) {
    edit.SetNumber(name, change.value, change.comment);
    return absl::OkStatus();
  }
  if (edit.SetText(name, *change.text, change.comment)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(change.field, ": a variable is a part of the text that is to be changed"));
}

std::string LineOf(const FieldChange& change) {
  return absl::StrCat(change.field, ": ",
                      change.text.has_value() ? Quoted(*change.text) : absl::StrCat(change.value),
                      CommentBehind(change.comment));
}

// Makes the changes in the text, and in `message`, which was parsed from it.
absl::Status Make(std::span<const FieldChange> changes, std::string_view title,
                  const TextLocations& locations, TextEdit& edit, Message& message) {
  std::vector<std::string> lines;
  for (const FieldChange& change : changes) {
    const FieldDescriptor* const field = FieldOf(message, change);
    if (field == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", change.field, "\" is no ", change.text.has_value() ? "text" : "whole number",
          " of ", message.GetDescriptor()->name()));
    }
    Set(field, change, message);
    if (const auto name = locations.Find(std::array<FieldStep, 1>{{{change.field}}})) {
      MILLRACE_RETURN_IF_ERROR(Replace(change, *name, edit));
      continue;
    }
    if (lines.empty() && !title.empty()) lines.push_back(absl::StrCat("# ", ToAbsl(title)));
    lines.push_back(LineOf(change));
  }
  edit.AddLines(lines);
  return absl::OkStatus();
}

}  // namespace

std::string CommentBehind(std::string_view comment) {
  return comment.empty() ? "" : absl::StrCat("  # ", ToAbsl(comment));
}

absl::StatusOr<EditedText> CheckEdited(const TextEdit& edit,
                                       const std::map<std::string, std::string>& given,
                                       const Message& expected, std::string_view numbers,
                                       std::string_view whole) {
  EditedText edited{edit.Text(), edit.variables()};
  const std::unique_ptr<Message> after(expected.New());
  std::set<std::string> used;
  const absl::Status parsed =
      ParseTextProto(edited.text, "the changed text", edited.variables, after.get(), &used)
          .status();
  if (!parsed.ok()) return absl::InternalError(parsed.message());
  if (MessageDifferencer::Equals(*after, expected)) return edited;
  if (edited.variables != given) {
    return absl::FailedPreconditionError(
        absl::StrCat("a variable that is given for ", ToAbsl(numbers),
                     " stands for something else of ", ToAbsl(whole), " too"));
  }
  return absl::InternalError(
      absl::StrCat("the changed text is not ", ToAbsl(whole), " with the changes"));
}

absl::StatusOr<EditedText> EditFields(std::string_view text, const std::string& origin,
                                      const std::map<std::string, std::string>& variables,
                                      std::span<const FieldChange> changes, const Message& type,
                                      std::string_view title) {
  const std::unique_ptr<Message> message(type.New());
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(const TextLocations locations,
                            ParseTextProto(text, origin, variables, message.get(), &used));
  TextEdit edit(text, variables);
  MILLRACE_RETURN_IF_ERROR(Make(changes, title, locations, edit, *message));
  return CheckEdited(edit, variables, *message, "a changed number", origin);
}

}  // namespace millrace::pipeline
