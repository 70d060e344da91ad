#ifndef MILLRACE_PIPELINE_PREDICATE_H_
#define MILLRACE_PIPELINE_PREDICATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/run.h"
#include "base/schema.h"

namespace millrace::pipeline {

// A condition on the fields of a sample, as in `filter` and `records cat --where`
// (docs/predicates.md): comparisons, `in`, `and`, `or`, `not` over scalar fields, elements
// (`box[2]`), lengths (`len(tokens)`), numbers and quoted strings. A value type; immutable and
// thread-safe after Resolve.
class Predicate {
 public:
  // Parses a condition.
  //   INVALID_ARGUMENT  a mistake in the text; the message begins with "column 12: "
  static absl::StatusOr<Predicate> Parse(std::string_view text);

  const std::string& text() const;
  // The names of the fields that the condition reads, each once, in order of first use.
  const std::vector<std::string>& fields() const;

  // Checks the types of the fields and chooses how to compare them. Called once, before Evaluate.
  //   INVALID_ARGUMENT  a field is missing (the message has the nearest name), or its type or shape
  //                     does not fit the other side of the comparison
  absl::Status Resolve(const Schema& schema);

  // Sets keep[row] to 1 if the condition holds and to 0 if not; skips rows that have an error. A
  // row gets an error if its outcome depends on a value that it does not have (an element behind
  // the end). Takes scratch memory from the run's arena.
  // REQUIRES: keep.size() == run.num_rows(), the run has the resolved schema's columns.
  void Evaluate(Run& run, std::span<uint8_t> keep) const;

  struct Node;  // predicate.cc

 private:
  std::string text_;
  std::vector<std::string> fields_;
  std::shared_ptr<const Node> root_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PREDICATE_H_
