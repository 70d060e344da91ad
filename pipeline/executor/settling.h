#ifndef MILLRACE_PIPELINE_EXECUTOR_SETTLING_H_
#define MILLRACE_PIPELINE_EXECUTOR_SETTLING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory_budget.h"
#include "pipeline/cut/settler.h"
#include "pipeline/executor/closed_work.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/pass_one.h"

// The settler's work, done without the executor's mutex by the worker that has the settler.

namespace millrace::pipeline {

// Makes the settler of a plan with a cut, at the place of `state`; empty: at the start.
//   the errors of Settler::Make and Settler::Restore
absl::StatusOr<std::unique_ptr<Settler>> MakeSettler(const ExecutorParts& parts,
                                                     size_t extents_per_row,
                                                     const std::string& state);

// Returns the most memory that the settler of these parts needs, and what tells it epochs.
// REQUIRES: a cut.
uint64_t SettlingBytes(const ExecutorParts& parts, size_t extents_per_row);

// Returns the most positions that each lane has, in all passes over the batch stage.
std::vector<uint64_t> LaneEnds(const ExecutorParts& parts);

// The batches that were closed in one turn of the settler.
struct ClosedBatches {
  std::vector<std::unique_ptr<ClosedWork>> batches;
  bool more = false;  // true if there may be more of them
};

// Tells the settler the findings of a turn, and takes the batches that this closes: at most as many
// as there is room for, and one where the budget has no room left. `elements`: the elements of the
// order, if the input has ended.
//   the errors of Settler::Reopen
absl::StatusOr<ClosedBatches> Settle(const ExecutorParts& parts, uint64_t elements,
                                     MemoryBudget& budget, PassOne::Turn& turn);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_SETTLING_H_
