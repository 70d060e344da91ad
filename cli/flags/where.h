#ifndef MILLRACE_CLI_FLAGS_WHERE_H_
#define MILLRACE_CLI_FLAGS_WHERE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/run.h"
#include "base/schema.h"
#include "pipeline/predicate.h"
#include "readers/example_view.h"

// `--where PREDICATE` of `millrace records`: the predicates of docs/predicates.md over the records
// of a file. No plan gives the types of the features, so each record gives its own: a feature is a
// list of numbers (and also a scalar if it has one number), or one string.

namespace millrace::cli {

// Thread-compatible.
class Where {
 public:
  //   INVALID_ARGUMENT  "column 12: ..."
  static absl::StatusOr<Where> Parse(std::string_view text);

  // Returns true if a record matches, and counts it.
  //   INVALID_ARGUMENT  a feature has another type or length than the predicate takes
  //   DATA_LOSS         not a tf.train.Example
  absl::StatusOr<bool> Matches(std::string_view payload);

  // "matched 3 of 120 records (2 without feature box)"
  std::string Summary() const;

 private:
  explicit Where(pipeline::Predicate predicate) : predicate_(std::move(predicate)) {}
  absl::StatusOr<bool> Evaluate(const std::map<std::string, readers::FeatureValues>& features);
  absl::Status Resolve(const Schema& schema);

  const pipeline::Predicate predicate_;
  pipeline::Predicate resolved_ = predicate_;  // for records of schema_
  Schema schema_;
  uint64_t num_records_ = 0;
  uint64_t num_matches_ = 0;
  std::map<std::string, uint64_t> num_without_;  // records by the first feature that they lack
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_WHERE_H_
