#ifndef MILLRACE_PIPELINE_EDIT_PLAN_H_
#define MILLRACE_PIPELINE_EDIT_PLAN_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/edit_text.h"
#include "pipeline/plan.h"

// Changes of a plan's performance in the text of its file, which keep comments, order and layout.
// Not installed.

namespace millrace::pipeline {

// The field by which a change means the batches of `prefetch`.
inline constexpr std::string_view kPrefetchField = "prefetch";

// The fields that a change of a plan may name: all of `performance`, and kPrefetchField.
std::vector<std::string> PerformanceFields();

// Returns `text`, a plan, with `changes`. A block or a stage that is not there comes behind the
// text, `performance` with `title` as a comment on its first line.
//   INVALID_ARGUMENT     the text is no plan, or a field is not one of PerformanceFields
//   FAILED_PRECONDITION  a variable that is given stands for a changed number and something else
//   INTERNAL             the changed text is not the plan with these changes and no others
absl::StatusOr<EditedText> EditPlanText(std::string_view text, const Variables& variables,
                                        std::span<const FieldChange> changes,
                                        std::string_view title = "");

// Returns true if the plans differ in nothing but their performance. Unlike fingerprints, this
// compares the names of files too.
bool SameButPerformance(const Plan& a, const Plan& b);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EDIT_PLAN_H_
