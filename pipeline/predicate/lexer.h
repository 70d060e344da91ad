#ifndef MILLRACE_PIPELINE_PREDICATE_LEXER_H_
#define MILLRACE_PIPELINE_PREDICATE_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::pipeline {

struct PredicateLexeme {
  enum class Kind { kEnd, kWord, kName, kInt, kFloat, kString, kSymbol };
  Kind kind = Kind::kEnd;
  size_t column = 0;
  std::string text;  // the text as written; kName, kString: between the quotes, unescaped
  int64_t int_value = 0;
  double float_value = 0;
};

// Splits the text of a predicate; the last lexeme is kEnd.
//   INVALID_ARGUMENT  "column 12: ..."
absl::StatusOr<std::vector<PredicateLexeme>> SplitPredicate(std::string_view text);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PREDICATE_LEXER_H_
