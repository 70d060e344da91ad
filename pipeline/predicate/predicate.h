#ifndef MILLRACE_PIPELINE_PREDICATE_PREDICATE_H_
#define MILLRACE_PIPELINE_PREDICATE_PREDICATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "pipeline/predicate.h"

// The tree that a predicate's text becomes. The parser makes it, Resolve adds the types.

namespace millrace::pipeline {

// One side of a comparison.
struct PredicateOperand {
  enum class Kind { kField, kElement, kLength, kInt, kFloat, kString };
  Kind kind = Kind::kField;
  size_t column = 0;         // where it stands in the text, in characters from 1
  std::string text;          // the field's name, or the string
  int64_t int_value = 0;     // kInt; kElement: which
  double float_value = 0;    // kFloat, and kInt as a double
  DType dtype = DType::kU8;  // of the field, after Resolve

  bool reads_field() const { return kind <= Kind::kLength; }
};

// As what values are compared.
enum class PredicateType { kInt, kFloat, kBytes };

struct Predicate::Node {
  enum class Kind { kOr, kAnd, kNot, kCompare, kIn };
  enum class Compare { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

  Kind kind = Kind::kCompare;
  std::vector<Node> children;  // kOr, kAnd: two or more; kNot: one
  PredicateOperand left;       // kCompare, kIn: reads a field
  Compare compare = Compare::kEqual;
  PredicateOperand right;              // kCompare
  std::vector<PredicateOperand> list;  // kIn: literals

  // After Resolve.
  PredicateType type = PredicateType::kInt;  // kCompare: of both sides; kIn: of `left`
  // kIn, sorted: literals to compare as integers, as doubles and as bytes.
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
};

//   INVALID_ARGUMENT  "column 12: ..."
absl::StatusOr<Predicate::Node> ParsePredicate(std::string_view text);

// "column 12: text", INVALID_ARGUMENT.
absl::Status PredicateError(size_t column, std::string_view text);

// `box[2]`, `len(tokens)`, `3`, as it would be written.
std::string ToText(const PredicateOperand& operand);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PREDICATE_PREDICATE_H_
