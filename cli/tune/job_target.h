#ifndef MILLRACE_CLI_TUNE_JOB_TARGET_H_
#define MILLRACE_CLI_TUNE_JOB_TARGET_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/tune/target.h"

namespace millrace::cli {

// A JobOpener, of the trainer's jobs.
//   INVALID_ARGUMENT  also: the file is a model
absl::StatusOr<std::unique_ptr<TunedJob>> OpenTunedJob(
    const std::string& path, const std::map<std::string, std::string>& variables);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_JOB_TARGET_H_
