#ifndef MILLRACE_PIPELINE_SELECT_LENGTHS_H_
#define MILLRACE_PIPELINE_SELECT_LENGTHS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/cut/length_table.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/physical.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// Examines all records of the source, on the context's workers: `scan` is a LengthsPlan's.
//   the first read that fails
absl::StatusOr<LengthTable> ScanLengths(const PhysicalPlan& scan,
                                        const readers::RecordSource& source, Context& context,
                                        const OpenOptions& options);

// Takes the lengths from the folder of indexes, or makes and keeps them; blocks meanwhile. Null
// where the plan keeps none, or, with a warning in the log, where a read failed or the memory
// budget has no room for them.
//   CANCELLED  options.cancels returned true
absl::StatusOr<std::shared_ptr<const LengthTable>> OpenLengths(const PhysicalPlan& plan,
                                                               const readers::RecordSource& source,
                                                               Context& context,
                                                               const OpenOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SELECT_LENGTHS_H_
