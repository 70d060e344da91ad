#ifndef MILLRACE_TRAINER_JOB_REDUCTION_H_
#define MILLRACE_TRAINER_JOB_REDUCTION_H_

#include <google/protobuf/io/tokenizer.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "collectives/gradient_reducer.h"
#include "trainer/job/bad_field.h"
#include "trainer/job/job.pb.h"
#include "trainer/train.h"

// The job's `reduction`: its fields, their limits and their defaults.

namespace millrace::trainer {

// Drops the errors of a parser, which would go to standard error.
class SilentErrors : public google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string&) override {}
};

// Gives one field another value.
//   INVALID_ARGUMENT  there is no such field, or the value is not of its type
absl::Status SetField(const FieldValue& field, Reduction& reduction);

// Returns the first field that is out of range, or that contradicts another; nullopt: none. The
// reduction is as the user wrote it, before FillDefaults.
std::optional<BadField> CheckReduction(const Reduction& reduction);

void FillDefaults(Reduction& reduction);

// Clears the fields that change no weight or only its rounding, and those that have their default
// value.
void KeepWhatWeightsDependOn(Reduction& reduction);

// The type that `wire_dtype` names, and the policy that `progress_policy` names; nullopt: none.
std::optional<DType> WireOf(std::string_view name);
std::optional<collectives::ProgressPolicy> PolicyOf(std::string_view name);

// "averaged over valid rows; 4 batches a step; norm clipped to 1; ..." for the start-up table.
std::string Describe(const Reduction& reduction);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_REDUCTION_H_
