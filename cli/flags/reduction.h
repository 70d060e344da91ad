#ifndef MILLRACE_CLI_FLAGS_REDUCTION_H_
#define MILLRACE_CLI_FLAGS_REDUCTION_H_

#include <vector>

#include "cli/flags/command_line.h"
#include "trainer/train.h"

namespace millrace::cli {

// The flags that set fields of a job's `reduction`. trainer/job/job.proto has their limits and
// defaults.
struct ReductionFlags {
  // These take precedence over the job.
  std::vector<trainer::FieldValue> given;
};

// Adds the flags. `flags` must live until the command line was parsed.
void AddReductionFlags(Command command, ReductionFlags& flags);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_REDUCTION_H_
