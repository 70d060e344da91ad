#ifndef MILLRACE_CLI_FLAGS_INFERENCE_H_
#define MILLRACE_CLI_FLAGS_INFERENCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/flags/command_line.h"
#include "cli/flags/device.h"
#include "trainer/inference.h"

namespace millrace::cli {

// The flags of commands that use a job's trained model.
struct InferenceFlags {
  trainer::InferenceOptions options;
  std::vector<std::string> variables;
  bool no_ema = false;
  DeviceFlags device;
};

// Adds the flags and the argument. `flags` must live until the command line was parsed.
void AddInferenceFlags(Command command, InferenceFlags& flags);

// The options that they stand for.
//   INVALID_ARGUMENT  a --var is no NAME=VALUE; or as SetDevices
absl::StatusOr<trainer::InferenceOptions> InferenceOptionsOf(const InferenceFlags& flags);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_INFERENCE_H_
