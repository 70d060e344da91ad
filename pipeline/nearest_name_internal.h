#ifndef MILLRACE_PIPELINE_NEAREST_NAME_INTERNAL_H_
#define MILLRACE_PIPELINE_NEAREST_NAME_INTERNAL_H_

#include <span>
#include <string>
#include <string_view>

namespace millrace::pipeline {

// Returns the candidate that was probably meant by `name`: the smallest edit distance, letter case
// ignored, if it is at most a third of the name's length (and at least 1); otherwise "".
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

// Returns "; did you mean \"x\"?", or "; there is: a, b, c" when nothing is near (the first 24), or
// "" without candidates.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_NEAREST_NAME_INTERNAL_H_
