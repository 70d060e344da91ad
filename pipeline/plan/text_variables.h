#ifndef MILLRACE_PIPELINE_PLAN_TEXT_VARIABLES_H_
#define MILLRACE_PIPELINE_PLAN_TEXT_VARIABLES_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// The first pass over a text file: ${NAME} and ${NAME:-default} become values, and every offset of
// the result remembers where in the file it came from.

namespace millrace::pipeline {

// Something wrong at a byte of the original text.
struct TextError {
  size_t offset = 0;
  std::string message;
};

// A stretch of the result. Verbatim stretches map byte by byte; all of a value maps to its "${".
struct TextSegment {
  size_t result_begin = 0;
  size_t original_begin = 0;
  bool verbatim = true;  // true if it stands in the original as it is
  bool given = false;    // true if it is the value of a variable that was given one
};

struct SubstitutedText {
  std::string text;
  std::vector<TextSegment> segments;    // the stretches, by result_begin
  std::set<std::string> used;           // variables that the text names, given or not
  std::set<std::string> without_value;  // those of them that have neither a value nor a default
  std::vector<TextError> errors;        // in order; `text` means nothing unless empty

  // The byte of the original text that byte `offset` of `text` stands for.
  size_t ToOriginal(size_t offset) const;
  // True if a value that was given begins at byte `offset` of `text`.
  bool IsGivenAt(size_t offset) const;
};

// Inside a string literal a value is escaped, so that it cannot end the literal; outside it must be
// one number or identifier. "$$" is "$". Comments are left alone. Nesting of more than
// kMaxTextNesting brackets is an error, since the parser behind recurses; so is a bracket that
// nothing closes, at its own place.
inline constexpr int kMaxTextNesting = 64;
SubstitutedText SubstituteVariables(std::string_view text,
                                    const std::map<std::string, std::string>& variables);

// "LINE:COLUMN" of a byte: from 1, the column in characters (UTF-8).
std::string LineAndColumn(std::string_view text, size_t offset);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_TEXT_VARIABLES_H_
