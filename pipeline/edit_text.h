#ifndef MILLRACE_PIPELINE_EDIT_TEXT_H_
#define MILLRACE_PIPELINE_EDIT_TEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Message;
}

// Changes of fields in the text of a file, which keep comments, order and layout. Not installed.

namespace millrace::pipeline {

// A field that gets another value.
struct FieldChange {
  std::string field;
  uint64_t value = 0;
  std::string comment;                             // on the line of the change; empty: none
  std::optional<std::string> text = std::nullopt;  // of a field of text, in place of `value`
};

struct EditedText {
  std::string text;
  // The values of the variables with which the text is the changed message: as given, but for those
  // that stand for a number that was changed.
  std::map<std::string, std::string> variables;
};

// Returns `text`, a message of the type of `type`, with changes of its own whole numbers and texts,
// not of those of messages in it. Fields that are not there come behind the text, and before them a
// comment `title`, if it is not empty. `origin` is the file's name in messages; variables that the
// text does not name are left alone.
//   INVALID_ARGUMENT     the text does not parse, or a field is no whole number or no text of the
//                        message
//   FAILED_PRECONDITION  a variable that is given stands for a changed number and something else,
//                        or is a part of a text that is to be changed
//   INTERNAL             the changed text is not the message with these changes and no others
absl::StatusOr<EditedText> EditFields(std::string_view text, const std::string& origin,
                                      const std::map<std::string, std::string>& variables,
                                      std::span<const FieldChange> changes,
                                      const google::protobuf::Message& type,
                                      std::string_view title = "");

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EDIT_TEXT_H_
