#include "trainer/loop/open_context.h"

#include <utility>

#include "pipeline/pipeline.h"

namespace millrace::trainer {

absl::StatusOr<std::shared_ptr<Context>> OpenContext(
    const Job& job, const CoreSplit& cores, std::function<void(std::string_view line)> warn,
    std::shared_ptr<Metrics> metrics) {
  ContextOptions options;
  options.metrics = std::move(metrics);
  options.threads = cores.pipeline_most;
  options.io_threads = cores.io;
  options.batch_priority = true;
  options.memory_budget_bytes = int64_t{job.memory_budget_mib()} << 20;
  if (warn) {
    options.log = [warn = std::move(warn)](LogLevel level, std::string_view text) {
      if (level != LogLevel::kInfo) warn(text);
    };
  }
  return pipeline::MakeContext(std::move(options));
}

}  // namespace millrace::trainer
