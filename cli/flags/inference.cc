#include "cli/flags/inference.h"

#include "base/status.h"
#include "cli/flags/checks.h"

namespace millrace::cli {

void AddInferenceFlags(Command command, InferenceFlags& flags) {
  trainer::InferenceOptions& options = flags.options;
  command.Add("job", options.job_path, "Job file, which names model and plan").Required();
  command.Add("--checkpoint", options.checkpoint,
              "Checkpoint, folder of checkpoints (the newest whole one) or safetensors file of "
              "weights (default: the job's folder)");
  command.Add("--plan", options.plan_path, "Plan of the data (default: the job's eval)");
  command.AddSwitch("--no-ema", flags.no_ema,
                    "Take the weights in place of their average, if the job has one");
  command.Add("--var", flags.variables, "NAME=VALUE for ${NAME} in the job's files; repeatable")
      .OneValueEach();
  command
      .Add("--threads", options.threads,
           "Cores of this rank (0: usable cores / ranks of this "
           "host)")
      .Whole(0, 4096);
  AddDeviceFlag(command, flags.device);
  command.Add("--quarantine", options.quarantine_file,
              "Append a line for each damaged record to this file (see records repair)");
}

absl::StatusOr<trainer::InferenceOptions> InferenceOptionsOf(const InferenceFlags& flags) {
  trainer::InferenceOptions options = flags.options;
  MILLRACE_ASSIGN_OR_RETURN(options.variables, ParseVariables(flags.variables));
  options.use_average = !flags.no_ema;
  MILLRACE_RETURN_IF_ERROR(SetDevices(flags.device, options.device, options.devices));
  return options;
}

}  // namespace millrace::cli
