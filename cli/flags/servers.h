#ifndef MILLRACE_CLI_FLAGS_SERVERS_H_
#define MILLRACE_CLI_FLAGS_SERVERS_H_

#include <vector>

#include "cli/flags/command_line.h"
#include "trainer/train.h"

namespace millrace::cli {

// Adds the flags that set fields of a job's `strategy { parameter_server {} }`. They go to `given`,
// which must live until the command line was parsed. trainer/job/job.proto has their limits and
// defaults.
void AddServerFlags(Command command, std::vector<trainer::FieldValue>& given);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_SERVERS_H_
