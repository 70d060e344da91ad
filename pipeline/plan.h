#ifndef MILLRACE_PIPELINE_PLAN_H_
#define MILLRACE_PIPELINE_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace millrace::pipeline {

class Pipeline;      // the executor
struct PlanMessage;  // the protobuf message; pipeline/plan/message.h

// Values for ${NAME} in the text of a plan, by name. They are never taken from the environment.
using Variables = std::map<std::string, std::string>;

// A checked logical plan. Immutable, thread-safe, cheap to copy.
class Plan {
 public:
  // Reads a pipeline file in protobuf text format. Relative names of files in it are relative to
  // its folder; values of variables are relative to the current folder (S-PLAN-17).
  //   NOT_FOUND         no such file, or none of a vocabulary
  //   other             it, or a vocabulary, cannot be read
  //   INVALID_ARGUMENT  "FILE:LINE:COLUMN: ..." for each mistake: a misspelt field, op or variable
  //                     (with the nearest name), stages in an impossible order, an option out of
  //                     range
  static absl::StatusOr<Plan> FromFile(const std::string& path, const Variables& variables = {});
  // The same from text; `origin` stands for the file's name in messages, and all relative names are
  // relative to the current folder.
  static absl::StatusOr<Plan> FromText(std::string_view text, const std::string& origin,
                                       const Variables& variables = {});

  // The same from the text that a file `path`, which need not be there, has or is to have: relative
  // names are relative to its folder.
  static absl::StatusOr<Plan> FromTextOfFile(std::string_view text, const std::string& path,
                                             const Variables& variables = {});

  // The plan with every default and variable filled in, as text that FromText reads back.
  std::string ToText() const;
  // A hash of the canonical plan without performance fields and paths (docs/semantics.md).
  uint64_t Fingerprint() const;

  // The protobuf message inside, for this folder's own use.
  const PlanMessage& message() const { return *message_; }

 private:
  explicit Plan(std::shared_ptr<const PlanMessage> message) : message_(std::move(message)) {}
  std::shared_ptr<const PlanMessage> message_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_H_
