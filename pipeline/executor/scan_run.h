#ifndef MILLRACE_PIPELINE_EXECUTOR_SCAN_RUN_H_
#define MILLRACE_PIPELINE_EXECUTOR_SCAN_RUN_H_

#include <cstdint>
#include <vector>

#include "base/run.h"
#include "pipeline/cut/scan_board.h"
#include "pipeline/run/records.h"

namespace millrace::pipeline {

// A run of records that pass 1 looks at. Pooled; owned by one thread at a time.
struct ScanRun {
  ScanBlock* block = nullptr;  // the place of the findings on the board
  uint64_t position = 0;       // the position of the first record in its lane
  std::vector<SampleId> ids;   // the sample of each record
  // The position of each record in its lane; empty where positions count on from the first one's.
  std::vector<uint64_t> positions;
  RunRecords records;
  bool known = false;  // true if nothing is read: ExecutorParts::lengths knows all of the records
  // Rows whose records the source was told of before, until they have been read.
  int64_t expected_rows = 0;

  int64_t num_rows() const { return records.rows; }
  uint64_t position_of(int64_t row) const {
    return positions.empty() ? position + static_cast<uint64_t>(row)
                             : positions[static_cast<size_t>(row)];
  }
  // Empties it for its next use; the place in the budget stays.
  void Clear();
};

// Returns record `row` as a run of its own, with a copy of its frame and without a block.
ScanRun SingleRow(const ScanRun& run, int64_t row);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_SCAN_RUN_H_
