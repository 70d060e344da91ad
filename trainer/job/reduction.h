#ifndef MILLRACE_TRAINER_JOB_REDUCTION_H_
#define MILLRACE_TRAINER_JOB_REDUCTION_H_

#include <google/protobuf/io/tokenizer.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "collectives/gradient_reducer.h"
#include "collectives/stale_reducer.h"
#include "trainer/job/job.pb.h"
#include "trainer/train.h"

// The job's `reduction`: what may stand there, and what it asks of the reducer.

namespace millrace::trainer {

// Drops what a parser has to say; it would go to standard error.
class SilentErrors : public google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string&) override {}
};

// Gives one field another value.
//   INVALID_ARGUMENT  there is no such field, or the value is none of its type
absl::Status SetField(const FieldValue& field, Reduction& reduction);

// As the user wrote it; outcomes are INVALID_ARGUMENT with the field's name.
absl::Status Check(const Reduction& reduction);

void FillDefaults(Reduction& reduction);

// Clears what changes no weight, or their rounding alone, and what says no more than the default.
void KeepWhatWeightsDependOn(Reduction& reduction);

// What a reduction with its defaults filled in asks of the reducer.
collectives::ReducerOptions ReducerOptionsOf(const Reduction& reduction);

// For a run of `steps` more steps.
collectives::StaleOptions StaleOptionsOf(const Reduction& reduction, uint64_t steps);

// "averaged over valid rows; 4 batches a step; norm clipped to 1; ..." for the start-up table.
std::string Describe(const Reduction& reduction);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_REDUCTION_H_
