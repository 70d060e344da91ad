#ifndef MILLRACE_PIPELINE_PLAN_PATHS_H_
#define MILLRACE_PIPELINE_PLAN_PATHS_H_

#include <string>
#include <string_view>

#include "pipeline/plan/message.h"

// The names of files in a plan (docs/semantics.md, S-PLAN-17).

namespace millrace::pipeline {

// Puts the folder of the plan's file in front of the relative names that stand in the plan. Names
// that begin with the value given to a variable stay as they are, so they are relative to the
// current folder. Does nothing for a plan that was read from no regular file.
void ResolvePaths(const std::string& plan_file, PlanMessage* plan);
// The same for a file that need not be there.
void ResolvePathsBeside(const std::string& plan_file, PlanMessage* plan);

// "; the current folder is /home/ann", for a message that a relative `name` was not found; "" for
// another name.
std::string LookedFrom(std::string_view name);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_PATHS_H_
