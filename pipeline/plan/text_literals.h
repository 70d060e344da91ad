#ifndef MILLRACE_PIPELINE_PLAN_TEXT_LITERALS_H_
#define MILLRACE_PIPELINE_PLAN_TEXT_LITERALS_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace millrace::pipeline {

// The place of the first byte from `at` on that stands in no comment and is no blank.
size_t SkipBlanks(std::string_view text, size_t at);
// The place behind the literal whose opening quote is at `at`.
size_t SkipLiteral(std::string_view text, size_t at);

// Returns the bytes of `text` at which the strings of a field begin, inside their quotes: one for
// f: "a", one per element for f: ["a", "b"]. `name` is the place of the field's name.
// REQUIRES: the text parses, and the field is a string.
std::vector<size_t> StringsOfField(std::string_view text, size_t name);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_TEXT_LITERALS_H_
