#include "cli/emulate/run_stream.h"

#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "cli/emulate/accelerator.h"
#include "cli/emulate/visit_record.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"
#include "pipeline/stretch.h"

namespace millrace::cli {
namespace {

absl::StatusOr<pipeline::OpenOptions> OpenOptionsOf(const RunFlags& flags) {
  pipeline::OpenOptions options;
  options.rank = flags.rank;
  options.world = flags.world;
  options.prefetch_batches = flags.prefetch;
  options.adapt = flags.adapt;
  options.cpu_budget = flags.threads;
  options.resume_token = flags.resume.value_or("");
  options.force_resume = flags.force;
  options.quarantine_file = flags.quarantine;
  if (!flags.token_file.empty()) {
    options.resume_file = flags.token_file;
    MILLRACE_ASSIGN_OR_RETURN(options.resume_token, ReadTokenFile(flags.token_file));
  }
  return options;
}

}  // namespace

double SamplesPerSecondOf(const RunFlags& flags) {
  const Accelerator* accelerator = FindAccelerator(flags.accelerator);
  return accelerator != nullptr ? accelerator->samples_per_second() : flags.pace;
}

pipeline::DiagnosisOptions DiagnosisOptionsOf(const RunFlags& flags, const RunStream& stream) {
  pipeline::DiagnosisOptions options = pipeline::DiagnosisOptionsOf(stream.plan, *stream.pipeline);
  options.pace = flags.accelerators * SamplesPerSecondOf(flags);
  options.settings = {"--threads $0", "--memory-budget-mib $0", "--prefetch $0"};
  return options;
}

absl::StatusOr<RunStream> OpenRunStream(const RunFlags& flags, pipeline::Plan plan,
                                        std::shared_ptr<const pipeline::OpTable> ops,
                                        std::shared_ptr<Metrics> metrics) {
  ContextOptions context_options;
  context_options.metrics = std::move(metrics);
  context_options.threads = flags.threads;
  context_options.memory_budget_bytes = static_cast<int64_t>(flags.memory_budget_mib) << 20;
  context_options.io_threads = flags.io_threads;
  context_options.log = WarnOfLog;
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext(plan, std::move(context_options)));
  MILLRACE_ASSIGN_OR_RETURN(pipeline::OpenOptions options, OpenOptionsOf(flags));
  options.ops = std::move(ops);
  Progress indexing("index", "bytes");
  options.index_progress = indexing.Callback();
  MILLRACE_ASSIGN_OR_RETURN(auto stream, pipeline::Pipeline::Open(plan, context, options));
  options.index_progress = nullptr;  // must not outlive `indexing`
  return RunStream{std::move(plan), std::move(context), std::move(options), std::move(stream)};
}

absl::StatusOr<RunStream> OpenRunStream(const RunFlags& flags,
                                        const std::map<std::string, std::string>& variables,
                                        std::shared_ptr<Metrics> metrics) {
  MILLRACE_ASSIGN_OR_RETURN(pipeline::Plan plan, pipeline::Plan::FromFile(flags.file, variables));
  return OpenRunStream(flags, std::move(plan), nullptr, std::move(metrics));
}

}  // namespace millrace::cli
