#include "trainer/weights.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"

namespace millrace::cli {
namespace {

struct Flags {
  trainer::WeightsOptions options;
  std::vector<std::string> variables;
};

using Exchange = absl::StatusOr<trainer::WeightsCount> (*)(const trainer::WeightsOptions&);

int Run(Flags& flags, Exchange exchange) {
  auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  flags.options.variables = *std::move(variables);
  const auto count = exchange(flags.options);
  if (!count.ok()) return Fail(count.status());
  std::printf("%s: %lld tensors, %lld numbers\n", flags.options.to.c_str(),
              static_cast<long long>(count->tensors), static_cast<long long>(count->elements));
  return kDone;
}

Command AddExchange(Command& parent, const std::string& name, const std::string& about,
                    const std::shared_ptr<Flags>& flags, Exchange exchange) {
  Command command = parent.AddCommand(name, about);
  command.Add("job", flags->options.job_path, "Job file, which names the model").Required();
  command.Add("--out", flags->options.to, "File to write").Required();
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the job's files; repeatable")
      .OneValueEach();
  command.Do([flags, exchange] { return Run(*flags, exchange); });
  return command;
}

}  // namespace

void AddWeights(Command parent) {
  Command weights = parent.AddCommand("weights", "Exchange weights with PyTorch (safetensors)");
  const auto exported = std::make_shared<Flags>();
  Command to_torch =
      AddExchange(weights, "export", "Write a checkpoint's weights as PyTorch names them", exported,
                  trainer::ExportWeights);
  to_torch.Add("--checkpoint", exported->options.from, "Checkpoint (default: the job's newest)");
  to_torch.AddSwitch("--average", exported->options.average,
                     "The average of the weights (ema) in their place");
  to_torch.Footer(
      "Example:\n"
      "  millrace weights export job.pbtxt --out weights.safetensors\n"
      "and in Python:\n"
      "  model.load_state_dict(safetensors.torch.load_file('weights.safetensors'))");
  const auto imported = std::make_shared<Flags>();
  Command from_torch =
      AddExchange(weights, "import", "Read PyTorch's weights for a job's init_from", imported,
                  trainer::ImportWeights);
  from_torch.Add("--from", imported->options.from, "Safetensors file of a state_dict").Required();
  from_torch
      .Add("--except", imported->options.except,
           "Tensors to begin anew, by name with *, ? and [...]; repeatable")
      .OneValueEach();
  from_torch.Footer(
      "Example:\n"
      "  millrace weights import job.pbtxt --from resnet50.safetensors --except 'fc.*' \\\n"
      "    --out start.safetensors");
}

}  // namespace millrace::cli
