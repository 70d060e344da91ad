#ifndef MILLRACE_PIPELINE_STAGES_CUT_OPS_H_
#define MILLRACE_PIPELINE_STAGES_CUT_OPS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"
#include "base/run.h"
#include "pipeline/predicate.h"

// Split samples, for both passes over them: pass 1 counts a sample's elements, pass 2 takes one.

namespace millrace::pipeline {

// How many elements the fields `split` (none: all fields of the run) have along their first
// extents, in a row that is ok. Fields that the run does not have are passed over.
//   INVALID_ARGUMENT kFeature  the extents differ, or a value has none
absl::StatusOr<int64_t> CountElements(const Run& run, int64_t row,
                                      std::span<const std::string> split);

// Replaces the values of the fields `split` (none: all) by their element id(row).sub_index, in
// place. REQUIRES: CountElements of each row that is ok is larger.
void TakeElements(Run& run, std::span<const std::string> split);

// Pass 2 of the stage `unbatch`: the op that TakeElements is. Its output has the fields without
// their first extent. Row errors are those of CountElements, and INVALID_ARGUMENT kFeature where
// there is no such element.
absl::StatusOr<std::unique_ptr<Op>> MakeUnbatchSlice(std::vector<std::string> fields);

// The op of a materialized filter: it fails the rows for which the predicate does not hold. Row
// errors are those of Predicate::Evaluate, and DATA_LOSS where it is false: the record is not the
// one that was looked at.
absl::StatusOr<std::unique_ptr<Op>> MakeFilterCheck(Predicate predicate);

// The stage `identity`: does nothing.
absl::StatusOr<std::unique_ptr<Op>> MakeIdentity();

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_CUT_OPS_H_
