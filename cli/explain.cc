#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command.h"
#include "cli/flag_checks.h"
#include "cli/progress.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::string file;
  std::vector<std::string> variables;
  int rank = 0;
  int world = 1;
};

absl::StatusOr<std::string> ExplainFile(const Flags& flags,
                                        const std::map<std::string, std::string>& variables) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Plan plan,
                            pipeline::Plan::FromFile(flags.file, variables));
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext());
  pipeline::OpenOptions options;
  options.rank = flags.rank;
  options.world = flags.world;
  Progress indexing("index", "bytes");
  options.index_progress = indexing.Callback();
  return pipeline::Explain(plan, context, options);
}

int Run(const Flags& flags) {
  if (const absl::Status status = CheckRank(flags.rank, flags.world); !status.ok()) {
    return FailUsage(status);
  }
  const auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  const auto text = ExplainFile(flags, *variables);
  if (!text.ok()) return Fail(text.status());
  std::fputs(text->c_str(), stdout);
  return kDone;
}

}  // namespace

void AddExplain(CLI::App& parent, Action& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand("explain", "Print a pipeline's logical and physical plan");
  app->add_option("file", flags->file, "Pipeline file (protobuf text format)")->required();
  app->add_option("--var", flags->variables, "NAME=VALUE for ${NAME} in the file; repeatable")
      ->allow_extra_args(false);
  app->add_option("--rank", flags->rank, "Rank whose rows are shown")
      ->check(Whole(0, kMaxInt))
      ->capture_default_str();
  app->add_option("--world", flags->world, "Number of ranks")
      ->check(Whole(1, kMaxInt))
      ->capture_default_str();
  app->footer(
      "Example:\n  millrace explain examples/fashion_mnist/train.pbtxt --var DATA=data --world 2");
  app->callback([flags, &chosen] { chosen = [flags] { return Run(*flags); }; });
}

}  // namespace millrace::cli
