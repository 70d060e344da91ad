#ifndef MILLRACE_PIPELINE_OPEN_LOOKAHEAD_SIZES_H_
#define MILLRACE_PIPELINE_OPEN_LOOKAHEAD_SIZES_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "pipeline/executor/parts.h"

namespace millrace::pipeline {

// How far the records behind URLs of a plan are told ahead, by the memory budget. Nullopt: none are
// fetched by themselves, or the plan has a cut and several lanes.
//
// A block-wise global_shuffle needs two windows: the one that is read, and the one that is on its
// way meanwhile.
//   INVALID_ARGUMENT  two windows are more than half of the memory budget
absl::StatusOr<std::optional<LookaheadSizes>> SizesOfLookahead(const ExecutorParts& parts,
                                                               uint64_t mean_row_bytes);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OPEN_LOOKAHEAD_SIZES_H_
