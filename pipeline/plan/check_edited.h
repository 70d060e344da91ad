#ifndef MILLRACE_PIPELINE_PLAN_CHECK_EDITED_H_
#define MILLRACE_PIPELINE_PLAN_CHECK_EDITED_H_

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "pipeline/edit_text.h"
#include "pipeline/plan/text_edit.h"

namespace millrace::pipeline {

// Returns the text of `edit`, which was made with the variables `given`, if it is `expected`.
// Messages name the `numbers` that may change, and the `whole` text.
//   FAILED_PRECONDITION  a variable that was given stands for a changed number and something else
//   INTERNAL             the text is another message, or none
absl::StatusOr<EditedText> CheckEdited(const TextEdit& edit,
                                       const std::map<std::string, std::string>& given,
                                       const google::protobuf::Message& expected,
                                       std::string_view numbers, std::string_view whole);

// " # COMMENT" with a blank more, or nothing where there is none.
std::string CommentBehind(std::string_view comment);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_CHECK_EDITED_H_
