#ifndef MILLRACE_PIPELINE_GROWING_ORDER_INTERNAL_H_
#define MILLRACE_PIPELINE_GROWING_ORDER_INTERNAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "pipeline/physical_plan_internal.h"

// A source that grows while it is read (push) has the order of a stream without end until it ends;
// then its size is known and the order is that of so many records. Both agree on every row whose
// record is there, since a stage that would have to see the end first is refused.

namespace millrace::pipeline {

// Whether a plan can read a growing source.
//   INVALID_ARGUMENT  names the stage that has to see the end first, or the cut
absl::Status CheckGrowing(const PhysicalPlan& plan);

// How many records there have to be for the first `elements` elements of the plan's order.
// REQUIRES: CheckGrowing.
uint64_t RecordsNeeded(const PhysicalPlan& plan, uint64_t elements);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_GROWING_ORDER_INTERNAL_H_
