#ifndef MILLRACE_PIPELINE_GROWING_ORDER_INTERNAL_H_
#define MILLRACE_PIPELINE_GROWING_ORDER_INTERNAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "pipeline/physical_plan_internal.h"

// A source that grows while it is read (push) has the order of a stream without end until it ends;
// then its size is known and the order is that of so many records. Both agree on every row whose
// record is there, since a stage that would have to see the end first is refused: which may stand
// is said by plan_check_order.cc, and by CheckGrowing what only the fields of a plan tell.

namespace millrace::pipeline {

// Whether a plan whose stages may follow push can read a growing source.
//   INVALID_ARGUMENT  its rows would have to be looked at first; names the batch stage
absl::Status CheckGrowing(const PhysicalPlan& plan);

// How many records there have to be for the first `elements` elements of the plan's order.
// REQUIRES: the order is made of take, skip and shard.
uint64_t RecordsNeeded(const PhysicalPlan& plan, uint64_t elements);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_GROWING_ORDER_INTERNAL_H_
