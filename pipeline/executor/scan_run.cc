#include "pipeline/executor/scan_run.h"

namespace millrace::pipeline {

void ScanRun::Clear() {
  block = nullptr;
  ids.clear();
  positions.clear();
  records.Clear();
  known = false;
  expected_rows = 0;
}

ScanRun SingleRow(const ScanRun& run, int64_t row) {
  ScanRun single;
  single.position = run.position + static_cast<uint64_t>(row);
  single.ids = {run.ids[static_cast<size_t>(row)]};
  if (!run.positions.empty()) single.positions = {run.position_of(row)};
  single.records = RecordsOfRow(run.records, row);
  return single;
}

}  // namespace millrace::pipeline
