#ifndef MILLRACE_PIPELINE_PLAN_TEXT_LITERALS_H_
#define MILLRACE_PIPELINE_PLAN_TEXT_LITERALS_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace millrace::pipeline {

// Returns the bytes of `text` at which the strings of a field begin, inside their quotes: one for
// f: "a", one per element for f: ["a", "b"]. `name` is the place of the field's name.
// REQUIRES: the text parses, and the field is a string.
std::vector<size_t> StringsOfField(std::string_view text, size_t name);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_TEXT_LITERALS_H_
