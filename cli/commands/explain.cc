#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/emulate/analyze.h"
#include "cli/emulate/run_stream.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/wait/progress.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "pipeline/stage_docs.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::string file;
  bool stages = false;
  bool job = false;
  bool dot = false;
  std::vector<std::string> variables;
  bool analyze = false;
  bool json = false;
  double seconds = 0;  // 0: as Analyze says
  double pace = 0;     // samples per second; 0: as fast as can be
  int threads = 0;
  int prefetch = 0;
  int rank = 0;
  int world = 1;
  uint64_t memory_budget_mib = 0;  // 0: as the plan says
};

absl::StatusOr<std::string> ExplainFile(const Flags& flags,
                                        const std::map<std::string, std::string>& variables) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Plan plan,
                            pipeline::Plan::FromFile(flags.file, variables));
  ContextOptions context_options;
  context_options.memory_budget_bytes = static_cast<int64_t>(flags.memory_budget_mib) << 20;
  context_options.log = WarnOfLog;
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext(plan, std::move(context_options)));
  pipeline::OpenOptions options;
  options.rank = flags.rank;
  options.world = flags.world;
  Progress indexing("index", "bytes");
  options.index_progress = indexing.Callback();
  return pipeline::Explain(plan, context, options);
}

// The flags that go with a plan alone, or with a job alone.
absl::Status CheckKind(const Flags& flags, bool is_job) {
  if (flags.analyze && is_job) {
    return absl::InvalidArgumentError(
        "--analyze is of plans: give the job's plan, or see the end of `millrace train`");
  }
  const bool drives =
      flags.json || flags.seconds > 0 || flags.pace > 0 || flags.threads > 0 || flags.prefetch > 0;
  if (!flags.analyze && drives) {
    return absl::InvalidArgumentError(
        "--json, --seconds, --pace, --threads and --prefetch go with --analyze");
  }
  if (flags.dot && !is_job) {
    return absl::InvalidArgumentError("--dot is of jobs and models, not of plans");
  }
  if (is_job && (flags.rank != 0 || flags.world != 1)) {
    return absl::InvalidArgumentError("--rank and --world are of plans, not of jobs or models");
  }
  if (is_job && flags.memory_budget_mib != 0) {
    return absl::InvalidArgumentError("--memory-budget-mib is of plans; a job has a field for it");
  }
  return CheckRank(flags.rank, flags.world);
}

int RunAnalysis(const Flags& flags, const std::map<std::string, std::string>& variables) {
  RunFlags run;
  run.file = flags.file;
  run.seconds = flags.seconds;
  run.pace = flags.pace;
  run.threads = flags.threads;
  run.prefetch = flags.prefetch;
  run.memory_budget_mib = flags.memory_budget_mib;
  run.rank = flags.rank;
  run.world = flags.world;
  run.json = flags.json;
  run.adapt = false;
  auto stream = OpenRunStream(run, variables);
  if (!stream.ok()) return Fail(stream.status());
  const auto diagnosis = Analyze(run, *stream);
  if (!diagnosis.ok()) return Fail(diagnosis.status());
  PrintAnalysis(run, *stream, *diagnosis);
  return kDone;
}

int Run(const Flags& flags, const JobExplainer& jobs) {
  if (flags.stages != flags.file.empty()) {
    return FailUsage(flags.stages ? "--stages takes no file" : "file is required");
  }
  if (flags.stages) {
    std::fputs(pipeline::StagesText().c_str(), stdout);
    return kDone;
  }
  const bool is_job = flags.job || (jobs.is_job != nullptr && jobs.is_job(flags.file));
  if (const absl::Status status = CheckKind(flags, is_job); !status.ok()) {
    return FailUsage(status);
  }
  const auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  if (flags.analyze) return RunAnalysis(flags, *variables);
  const auto text =
      is_job ? jobs.explain(flags.file, *variables, flags.dot) : ExplainFile(flags, *variables);
  if (!text.ok()) return Fail(text.status());
  std::fputs(text->c_str(), stdout);
  return kDone;
}

}  // namespace

void AddExplain(Command parent, const JobExplainer& jobs) {
  const bool has_jobs = jobs.explain != nullptr;
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "explain", has_jobs ? "Print a pipeline's logical and physical plan, or a job or a model"
                          : "Print a pipeline's logical and physical plan");
  command.Add("file", flags->file,
              has_jobs ? "Pipeline, job or model file (protobuf text format)"
                       : "Pipeline file (protobuf text format)");
  if (has_jobs) {
    command.AddSwitch("--job", flags->job, "The file is a job, even if it does not look like one");
    command.AddSwitch("--dot", flags->dot, "Print the model as a graph for Graphviz");
  }
  command.AddSwitch("--stages", flags->stages,
                    "Print all stages, their options and defaults instead of a plan");
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the file; repeatable")
      .OneValueEach();
  command.Add("--rank", flags->rank, "Rank whose rows are shown").Whole(0, kMaxInt).ShowDefault();
  command.Add("--world", flags->world, "Number of ranks").Whole(1, kMaxInt).ShowDefault();
  command.AddSwitch("--analyze", flags->analyze,
                    "Run the pipeline, and print what limits it and what would help");
  command.Add("--seconds", flags->seconds, "With --analyze: seconds that are measured (0: 10)")
      .Finite(0, 1e6);
  command
      .Add("--pace", flags->pace, "With --analyze: emulate a consumer that takes this many img/s")
      .Finite(1e-3, 1e12);
  command.Add("--threads", flags->threads, "With --analyze: pipeline threads (0: usable cores)")
      .Whole(0, 4096);
  command
      .Add("--prefetch", flags->prefetch,
           "With --analyze: batches made ahead (0: as the plan says)")
      .Whole(0, 1024);
  command.AddSwitch("--json", flags->json, "With --analyze: one JSON object on standard output");
  command
      .Add("--memory-budget-mib", flags->memory_budget_mib,
           "Limit on the pipeline's memory in MiB (0: as the plan says, else 2048)")
      .Whole(0, kMaxMib);
  command.Footer(
      "Examples:\n"
      "  millrace explain examples/fashion_mnist/train.pbtxt --var DATA=data --world 2\n"
      "  millrace explain examples/fashion_mnist/train.pbtxt --var DATA=data --analyze --pace "
      "5000");
  command.Do([flags, jobs] { return Run(*flags, jobs); });
}

}  // namespace millrace::cli
