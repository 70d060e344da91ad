#ifndef MILLRACE_PIPELINE_RUN_OPEN_BATCH_H_
#define MILLRACE_PIPELINE_RUN_OPEN_BATCH_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/batch/closed_batch.h"
#include "pipeline/batch/data.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {

// A row that cannot be delivered as it is.
struct BadRow {
  int64_t row = 0;         // the row of the batch's slab
  bool tolerable = false;  // true if it is damage, and the plan goes on behind it
  absl::Status error;      // complete
};

// A batch that is being made. Many workers write its rows at once, each its own.
struct OpenBatch {
  // Constant once the batch is in the ring.
  std::shared_ptr<BatchData> data;
  bool closed = false;                 // true if the plan has a cut: the slab holds the rows' ids
  const BatchOrder* order = nullptr;   // without a cut: the order of the rows
  BatchPlace place;                    // without a cut: the place in that order
  std::vector<ClosedBatch::Row> rows;  // with a cut: the rows to work on, ascending slots
  int64_t num_work_rows = 0;           // rows to work on; without a cut they fill slots from 0 on
  uint64_t first_position = 0;         // the position of slot 0 in the stream
  std::vector<uint32_t> lanes;  // the lane of each slot, where rows that move up stay in theirs

  // Guarded by the executor's mutex.
  bool ready = false;          // true if it can be delivered
  int64_t claimed_rows = 0;    // rows that were given to a planner
  int64_t remaining_rows = 0;  // rows that have not landed
  int64_t num_bad_rows = 0;
  int64_t error_row = std::numeric_limits<int64_t>::max();
  absl::Status error;  // the error of error_row, the lowest row so far that no policy mends
  std::vector<BadRow> tolerable;  // rows to mend once all rows have landed
  uint32_t candidates = 0;        // substitutes tried for each damaged sample

  void AddBadRow(BadRow bad);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_OPEN_BATCH_H_
