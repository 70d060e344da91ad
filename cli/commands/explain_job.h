#ifndef MILLRACE_CLI_COMMANDS_EXPLAIN_JOB_H_
#define MILLRACE_CLI_COMMANDS_EXPLAIN_JOB_H_

#include "cli/program.h"

namespace millrace::cli {

// The explanation of the trainer's jobs and models.
JobExplainer ExplainerOfJobs();

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_COMMANDS_EXPLAIN_JOB_H_
