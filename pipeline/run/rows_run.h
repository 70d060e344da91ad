#ifndef MILLRACE_PIPELINE_RUN_ROWS_RUN_H_
#define MILLRACE_PIPELINE_RUN_ROWS_RUN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "pipeline/batch/closed_batch.h"
#include "pipeline/run/kept_records.h"
#include "pipeline/run/open_batch.h"
#include "pipeline/run/records.h"

namespace millrace::pipeline {

// Records that pass 1 has read, one per row.
struct KeptRows {
  std::vector<std::shared_ptr<const KeptRecords>> owners;
  std::vector<std::string_view> payloads;  // the bytes of each record, in `owners`

  bool empty() const { return payloads.empty(); }
};

// A run on its way to rows [first_row, first_row + num_rows()) of a batch's slab. Its records are
// read, unless pass 1 kept them. Pooled; owned by one thread at a time.
struct RowsRun {
  OpenBatch* batch = nullptr;
  int64_t first_row = 0;
  uint64_t position = 0;  // the position of the first row in the stream
  RunRecords records;     // no rows if the records are kept ones
  KeptRows kept;
  std::vector<BadRow> bad_rows;  // the bad rows, once it was worked on
  // Rows whose records the source was told of before, until they have been read.
  int64_t expected_rows = 0;

  int64_t num_rows() const {
    return kept.empty() ? records.num_rows() : static_cast<int64_t>(kept.payloads.size());
  }
  const SampleId* ids() const { return batch->data->ids() + first_row; }
  // Frees the records' bytes, once nothing points to them.
  void DropRecords();
  // Empties it for its next use; the place in the budget stays.
  void Clear();
};

// Makes `run`, cleared, one of the first of `rows`, as far as their records were kept; from
// `enough` rows on it goes no further than one read of pass 1 did. Returns the number of rows, 0 if
// the first one's record is not kept.
int64_t TakeKept(RecordKeeper& keeper, std::span<const ClosedBatch::Row> rows, int64_t enough,
                 RowsRun& run);

// Returns row `row` as a run of its own, with a copy of its frame.
RowsRun SingleRow(const RowsRun& run, int64_t row);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_ROWS_RUN_H_
