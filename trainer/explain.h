#ifndef MILLRACE_TRAINER_EXPLAIN_H_
#define MILLRACE_TRAINER_EXPLAIN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

// The text that `millrace explain` prints of a job or a model.

namespace millrace::trainer {

struct ExplainOptions {
  std::string job_path;                          // or of a model
  std::map<std::string, std::string> variables;  // ${NAME} in the job's files
  bool as_dot = false;                           // true for the model as a graph of Graphviz
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;  // may be empty
};

// True if the file's text has the fields of a job, be they right or wrong; false also for what is
// no regular file.
bool IsJobFile(const std::string& path);

// True if the file's text has the fields of a model, likewise.
bool IsModelFile(const std::string& path);

// Describes the model of a model file: a table of its layers, and its sizes.
//   NOT_FOUND         the file is missing
//   INVALID_ARGUMENT  it is wrong ("FILE:LINE:COLUMN: ...")
absl::StatusOr<std::string> ExplainModel(const ExplainOptions& options);

// Describes a job without running it: a table of the model's layers, its sizes, and the learning
// rate over the training. Opens the training data, on which the number of steps depends; if they
// cannot be opened, or variables of the plan have no value, the text says so in place of the rate.
//   NOT_FOUND         the job, its model or its training plan is missing
//   INVALID_ARGUMENT  one of them is wrong ("FILE:LINE:COLUMN: ...")
absl::StatusOr<std::string> ExplainJob(const ExplainOptions& options);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EXPLAIN_H_
