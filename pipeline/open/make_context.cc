#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/metric_table.h"
#include "base/status.h"
#include "pipeline/performance.h"
#include "pipeline/pipeline.h"
#include "readers/read_engine.h"

namespace millrace::pipeline {
namespace {

// Tells of reads that hang: in the log, and in metrics that a monitor looks at.
readers::ReadWatchOptions WatchOf(const ContextOptions& options) {
  readers::ReadWatchOptions watch;
  watch.deadline = options.read_deadline;
  watch.report = [log = options.log, metrics = options.metrics](const readers::OverdueRead& read) {
    metrics->gauge(metric::kReadsOverdueNow).Add(read.over ? -1 : 1);
    if (!read.over) metrics->counter(metric::kReadsOverdue).Add();
    if (!log) return;
    const std::string text =
        absl::StrCat("reading ", read.bytes, " bytes of ", read.path, " at offset ", read.offset,
                     read.over ? " took " : " has taken ", read.so_far.count(), " ms",
                     read.over ? "" : " and goes on: the disk or the server does not answer");
    log(LogLevel::kWarning, text);
  };
  return watch;
}

// The budget that a cgroup's limit allows: the kernel ends a process that goes over it, and the
// budget does not count all that a process has.
int64_t MostBudget() {
  const std::optional<uint64_t> limit = ReadMemoryLimit();
  if (!limit.has_value()) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(static_cast<int64_t>(*limit / 4 * 3), 1);
}

}  // namespace

// Reads wait for a device rather than for a core, so there are more I/O threads than workers.
absl::StatusOr<std::shared_ptr<Context>> MakeContext(ContextOptions options) {
  if (options.metrics == nullptr) options.metrics = std::make_shared<Metrics>();
  const int64_t budget = options.memory_budget_bytes;
  options.memory_budget_bytes = std::min(budget == 0 ? kDefaultMemoryBudget : budget, MostBudget());
  if (options.io == nullptr) {
    const int workers = options.threads > 0 ? options.threads : ReadCores().usable;
    const int threads =
        options.io_threads > 0 ? options.io_threads : std::clamp(2 * workers, 4, 64);
    MILLRACE_ASSIGN_OR_RETURN(options.io, readers::MakePreadEngine(threads, WatchOf(options)));
  }
  return Context::Make(std::move(options));
}

absl::StatusOr<std::shared_ptr<Context>> MakeContext(const Plan& plan, ContextOptions options) {
  return MakeContext(WithPerformanceOf(plan, std::move(options)));
}

}  // namespace millrace::pipeline
