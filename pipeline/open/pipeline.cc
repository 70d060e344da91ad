#include "pipeline/pipeline.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/status.h"
#include "pipeline/open/open.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/performance.h"
#include "pipeline/plan/limits.h"
#include "pipeline/source/open.h"

namespace millrace::pipeline {

absl::Status OpenOptions::Validate() const {
  if (world < 1) return absl::InvalidArgumentError("OpenOptions.world must be at least 1");
  if (rank < 0 || rank >= world) {
    return absl::InvalidArgumentError(
        absl::StrCat("OpenOptions.rank is ", rank, ", must be in [0, ", world, ")"));
  }
  if (prefetch_batches < 0 || prefetch_batches > kMaxPrefetch) {
    return absl::InvalidArgumentError("OpenOptions.prefetch_batches must be in [0, 1024]");
  }
  if (cpu_budget < 0) {
    return absl::InvalidArgumentError("OpenOptions.cpu_budget must be at least 0");
  }
  if (read_ahead_runs < 0 || read_ahead_runs > static_cast<int>(kMaxReadAheadRuns)) {
    return absl::InvalidArgumentError("OpenOptions.read_ahead_runs must be in [0, 65536]");
  }
  if (run_us < 0 || run_us > static_cast<int>(kMaxRunMicroseconds)) {
    return absl::InvalidArgumentError("OpenOptions.run_us must be in [0, 100000]");
  }
  if (pinned_for.has_value() && *pinned_for < 0) {
    return absl::InvalidArgumentError("OpenOptions.pinned_for must not be negative");
  }
  return Annotate(http.Validate(), "OpenOptions.http");
}

namespace {

// Opens the sources and looks through their records where the plan wants that. options.cancels is
// not asked afterwards, though sources may ask as long as they live.
absl::StatusOr<OpenedSources> OpenCancellable(const PhysicalPlan& plan, Context& context,
                                              const OpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckGoesOn(options.cancels, "opening the plan was cancelled"));
  OpenOptions opening = options;
  const auto is_open = std::make_shared<std::atomic<bool>>(false);
  if (options.cancels) {
    opening.cancels = [is_open, cancels = options.cancels] { return !*is_open && cancels(); };
  }
  MILLRACE_ASSIGN_OR_RETURN(OpenedSources sources, OpenSources(plan, context, opening));
  MILLRACE_RETURN_IF_ERROR(sources.Select(plan, context, opening));
  MILLRACE_RETURN_IF_ERROR(sources.KeepLengths(plan, context, opening));
  *is_open = true;
  return sources;
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenPlan(const Plan& plan,
                                                   std::shared_ptr<Context> context,
                                                   const OpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(context->CheckNotForked());
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  OptimizerOptions optimizer;
  optimizer.custom = CustomOpsOf(options);
  MILLRACE_ASSIGN_OR_RETURN(PhysicalPlan physical, BuildPhysicalPlan(plan, optimizer));
  MILLRACE_ASSIGN_OR_RETURN(OpenedSources sources, OpenCancellable(physical, *context, options));
  return OpenPhysical(std::move(physical), std::move(sources), std::move(context), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Open(const Plan& plan,
                                                         std::shared_ptr<Context> context,
                                                         const OpenOptions& options) {
  return Caught(
      [&] { return OpenPlan(plan, std::move(context), WithPerformanceOf(plan, options)); });
}

}  // namespace millrace::pipeline
