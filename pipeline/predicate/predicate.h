#ifndef MILLRACE_PIPELINE_PREDICATE_PREDICATE_H_
#define MILLRACE_PIPELINE_PREDICATE_PREDICATE_H_

#include <algorithm>
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

// The type as which values are computed and compared.
enum class PredicateType { kInt, kFloat, kBytes };

// One side of a comparison.
struct PredicateOperand {
  enum class Kind { kField, kElement, kLength, kInt, kFloat, kString, kCall };
  enum class Function { kModulo, kFloorDivide, kMin, kMax, kAbs };
  Kind kind = Kind::kField;
  size_t column = 0;                        // column in the text, in characters from 1
  std::string text;                         // name of the field, or the string
  int64_t int_value = 0;                    // kInt; kElement: index of the element
  double float_value = 0;                   // kFloat, and kInt as a double
  Function function = Function::kModulo;    // kCall
  std::vector<PredicateOperand> arguments;  // kCall: one of kAbs, two or more of the others

  // After Resolve.
  DType dtype = DType::kU8;                  // dtype of the field
  PredicateType type = PredicateType::kInt;  // kCall: kInt or kFloat

  // True if the operand is a field, an element or a length.
  bool is_field() const { return kind <= Kind::kLength; }
  // True if the operand or one of its arguments is_field().
  bool reads_field() const {
    return is_field() || std::ranges::any_of(arguments, &PredicateOperand::reads_field);
  }
};

struct Predicate::Node {
  enum class Kind { kOr, kAnd, kNot, kCompare, kIn };
  enum class Compare { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kStartsWith };

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

// The function as it is written: "%", "min".
std::string_view NameOf(PredicateOperand::Function function);

// "column 12: text", INVALID_ARGUMENT.
absl::Status PredicateError(size_t column, std::string_view text);

// The operand as it is written: `box[2]`, `len(tokens)`, `3`, `label % 10`.
std::string ToText(const PredicateOperand& operand);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PREDICATE_PREDICATE_H_
