#ifndef MILLRACE_PIPELINE_STAGE_DOCS_H_
#define MILLRACE_PIPELINE_STAGE_DOCS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// The documentation of all stages, from the same rows that the program works with.

namespace millrace::pipeline {

// Every stage with its options and their defaults, for a terminal.
std::string StagesText();

// The page `markdown` with each of its tables of stages made anew. A table stands between the lines
// "<!-- stages: KEY -->" and "<!-- end of stages -->"; the keys are those of the families of stages
// ("files", "order", ...), each of which the page must have once.
//   INVALID_ARGUMENT  a key that is not known, or there twice, a table without an end, or a family
//                     without a table
absl::StatusOr<std::string> WithStageTables(std::string_view markdown);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGE_DOCS_H_
