#ifndef MILLRACE_PIPELINE_OPEN_OPEN_H_
#define MILLRACE_PIPELINE_OPEN_OPEN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/executor/parts.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/physical.h"
#include "pipeline/source/open.h"

// The steps of Pipeline::Open behind the plan and the files.

namespace millrace::pipeline {

// The largest OpenOptions::prefetch_batches.
inline constexpr int kMaxPrefetch = 1024;

// Opens a pipeline over sources and a physical plan.
//   the errors of Pipeline::Open but for those of the sources
absl::StatusOr<std::unique_ptr<Pipeline>> OpenPhysical(PhysicalPlan plan, OpenedSources sources,
                                                       std::shared_ptr<Context> context,
                                                       const OpenOptions& options);

// Makes the parts that the pipeline of a plan runs on.
//   the errors of OpenPhysical
absl::StatusOr<ExecutorParts> MakeExecutorParts(PhysicalPlan plan, OpenedSources sources,
                                                std::shared_ptr<Context> context,
                                                const OpenOptions& options);

// Opens a pipeline over its parts, at the place that the options name.
//   the errors of OpenPhysical
absl::StatusOr<std::unique_ptr<Pipeline>> OpenParts(ExecutorParts parts,
                                                    const OpenOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OPEN_OPEN_H_
