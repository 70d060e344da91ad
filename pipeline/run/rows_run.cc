#include "pipeline/run/rows_run.h"

#include <utility>

namespace millrace::pipeline {

void RowsRun::DropRecords() {
  records.buffer.reset();
  kept.owners.clear();
  kept.payloads.clear();
}

void RowsRun::Clear() {
  DropRecords();
  batch = nullptr;
  records.Clear();
  bad_rows.clear();
  expected_rows = 0;
}

int64_t TakeKept(RecordKeeper& keeper, std::span<const ClosedBatch::Row> rows, int64_t enough,
                 RowsRun& run) {
  std::shared_ptr<const KeptRecords> owner;
  uint64_t lane = 0;
  for (const ClosedBatch::Row& row : rows) {
    if (owner == nullptr || row.lane != lane || !owner->Has(row.origin.position)) {
      if (run.num_rows() >= enough) break;
      lane = row.lane;
      owner = keeper.Find(lane, row.origin.position);
      if (owner == nullptr) break;
      run.kept.owners.push_back(owner);
    }
    run.kept.payloads.push_back(owner->payload(row.origin.position));
  }
  return run.num_rows();
}

RowsRun SingleRow(const RowsRun& run, int64_t row) {
  RowsRun single;
  single.batch = run.batch;
  single.first_row = run.first_row + row;
  single.position = run.position + static_cast<uint64_t>(row);
  if (run.kept.empty()) {
    single.records = RecordsOfRow(run.records, row);
  } else {
    single.kept.owners = run.kept.owners;
    single.kept.payloads = {run.kept.payloads[static_cast<size_t>(row)]};
  }
  return single;
}

}  // namespace millrace::pipeline
