#ifndef MILLRACE_PIPELINE_STAGES_TABLE_H_
#define MILLRACE_PIPELINE_STAGES_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/stages/row.h"

// All stages, and look-ups in their rows.

namespace millrace::pipeline {

// In the order of the documentation.
std::span<const StageFamily* const> StageFamilies();

// The row of a stage's op. REQUIRES: the op is set.
const StageRow& RowOf(const proto::Stage& stage);
// The row of an op by its name ("flip"); null: there is no such stage.
const StageRow* FindRow(std::string_view name);

inline StageKind KindOf(const proto::Stage& stage) { return RowOf(stage).kind; }
// True for a map that works on whole batches.
inline bool MixesRows(const proto::Stage& stage) { return RowOf(stage).mixing != nullptr; }
// True for a map whose op draws random numbers for each sample.
inline bool DrawsAtRandom(const proto::Stage& stage) {
  const OpRow* const op = RowOf(stage).op;
  return op != nullptr && op->draws;
}
// True if an epoch of a plan with the stage may lack records of the source.
inline bool SkipsRecords(const proto::Stage& stage) {
  const auto skips = RowOf(stage).skips_records;
  return skips != nullptr && skips(stage);
}
// True if the number of batches of a plan with the stage is not known without looking at records.
inline bool CountsByRecords(const proto::Stage& stage) {
  const auto counts = RowOf(stage).counts_by_records;
  return counts != nullptr && counts(stage);
}

// Rows over all ranks of every batch that a batch stage makes. REQUIRES: it is checked.
std::vector<uint64_t> BatchSizesOf(const proto::Stage& stage);

// The row of an op by its options, ops that the optimizer joins included.
const OpRow& RowOf(const OpOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_TABLE_H_
