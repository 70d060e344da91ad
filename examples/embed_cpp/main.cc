// Opens a pipeline file and prints its batches, and on standard error what the program waited for:
//   embed PIPELINE.pbtxt [NAME=VALUE...]
#include <iostream>
#include <string>

#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/stretch.h"

namespace pipeline = millrace::pipeline;

absl::Status Run(const std::string& path, const pipeline::Variables& variables) {
  auto plan = pipeline::Plan::FromFile(path, variables);
  if (!plan.ok()) return plan.status();
  auto context = pipeline::MakeContext();
  if (!context.ok()) return context.status();
  auto batches = pipeline::Pipeline::Open(*plan, *context);
  if (!batches.ok()) return batches.status();

  const pipeline::Stretch stretch(**batches, **context);
  while (true) {
    auto batch = (*batches)->Next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) break;
    std::cout << "batch " << (*batch)->index() << ": " << (*batch)->num_valid_rows() << " rows";
    for (const std::string& name : (*batch)->names()) {
      std::cout << ", " << name << " " << (*batch)->Find(name).shape.ToString();
    }
    std::cout << "\n";
  }
  pipeline::DiagnosisOptions options = pipeline::DiagnosisOptionsOf(*plan, **batches);
  options.settings.threads = "ContextOptions.threads = $0";
  std::cerr << stretch.Diagnose(options).sentence << "\n";
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  pipeline::Variables variables;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    variables[argument.substr(0, argument.find('='))] = argument.substr(argument.find('=') + 1);
  }
  const absl::Status status = Run(argc > 1 ? argv[1] : "", variables);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
