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

// A condition over the fields of a sample, as `filter` and `records cat --where` take it
// (docs/predicates.md): comparisons, `in`, `and`, `or`, `not` over scalar fields, elements
// (`box[2]`), lengths (`len(tokens)`), numbers and quoted strings. A value type; immutable and
// thread-safe after Resolve.
class Predicate {
 public:
  //   INVALID_ARGUMENT  "column 12: ..."
  static absl::StatusOr<Predicate> Parse(std::string_view text);

  const std::string& text() const;
  // The fields that it reads, each once, in order of first use.
  const std::vector<std::string>& fields() const;

  // Checks the fields' types and finds how to compare them; once, before Evaluate.
  //   INVALID_ARGUMENT  a field is missing (the nearest name is told) or its type or shape does not
  //                     go with what it is compared with
  absl::Status Resolve(const Schema& schema);

  // Sets keep[row] to 1 where the condition holds, else to 0; leaves rows that are not ok alone. A
  // row whose outcome depends on a value that it does not have (an element behind the end) is
  // failed. Takes scratch memory from the run's arena.
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
