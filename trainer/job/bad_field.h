#ifndef MILLRACE_TRAINER_JOB_BAD_FIELD_H_
#define MILLRACE_TRAINER_JOB_BAD_FIELD_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/text_proto.h"

namespace millrace::trainer {

// A field whose value is refused. Its path has names that live for ever.
struct BadField {
  std::vector<pipeline::FieldStep> path;
  std::string why;

  // "optimizer.group[2].lr_scale".
  std::string name() const;
};

// INVALID_ARGUMENT: "FILE:LINE:COLUMN: optimizer.base_lr: -1 must be 0 or more".
absl::Status ErrorAt(const pipeline::TextLocations& places, const BadField& bad);

// Remembers the first of several fields that is bad.
class FieldChecks {
 public:
  using Path = std::initializer_list<pipeline::FieldStep>;

  void Require(bool good, Path path, const std::string& why);
  void AtLeastZero(double value, Path path);
  void AboveZero(double value, Path path);
  void BelowOne(double value, Path path);  // [0, 1)

  const std::optional<BadField>& first() const { return first_; }

 private:
  std::optional<BadField> first_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_BAD_FIELD_H_
