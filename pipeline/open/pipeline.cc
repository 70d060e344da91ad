#include "pipeline/pipeline.h"

#include <utility>

#include "base/status.h"
#include "pipeline/executor/executor.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/source/open.h"

namespace millrace::pipeline {

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Open(const Plan& plan,
                                                         std::shared_ptr<Context> context,
                                                         const OpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(context->CheckNotForked());
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  OptimizerOptions optimizer;
  optimizer.custom = CustomOpsOf(options);
  MILLRACE_ASSIGN_OR_RETURN(PhysicalPlan physical, BuildPhysicalPlan(plan, optimizer));
  MILLRACE_ASSIGN_OR_RETURN(OpenedSources sources, OpenSources(physical, *context, options));
  MILLRACE_RETURN_IF_ERROR(sources.Select(physical, *context, options));
  return OpenPhysical(std::move(physical), std::move(sources), std::move(context), options);
}

}  // namespace millrace::pipeline
