#include "pipeline/run/processor.h"
#include "pipeline/stages/apply_caught.h"

// The part of a RunProcessor that makes rows of windows. The elements of a run's windows, each
// once, are a run of their own for the ops in front of the window. Then they are copied to where
// each window wants them, as a rule into the batch.

namespace millrace::pipeline {

readers::RecordRef RunProcessor::RefOfElement(const RunRecords& records, size_t element) const {
  if (!records.refs.empty()) return records.refs[element];
  return source_.Locate(records.elements.ids[element].record);
}

bool RunProcessor::WorkOnElements(const RunRecords& records, Run& elements, RunSample& sample,
                                  FailedRows& failed) const {
  Load(records, elements);
  sample.End(0, elements);
  failed.Look("source");
  for (size_t i = 0; i + 1 < first_op_; ++i) {
    if (!ApplyCaught(*plan_.ops[i].op, elements)) return false;
    failed.Look(plan_.ops[i].stage);
    sample.End(i + 1, elements);
  }
  return true;
}

void RunProcessor::FailByElement(const RowsRun& work, RunScratch& scratch, Run& run,
                                 FailedRows& failed) const {
  for (const uint32_t element : work.records.elements_of(0)) {
    const RunRecords records = RecordsOfElement(work.records, element);
    Run single(scratch.arena, plan_.seed, work.position, records.elements.ids.data(), 1);
    FailedRows its(single);
    WorkOnElements(records, single, scratch.sample, its);
    if (single.all_ok()) continue;
    run.Fail(0, At(single.status(0), RefOfElement(records, 0)));
    return failed.Note(0, its.StageOf(0));
  }
  run.Fail(0, absl::InternalError("an op threw, but not at any element alone"));
  failed.Note(0, plan_.window->stage);
}

bool RunProcessor::LoadWindows(const RowsRun& work, RunScratch& scratch, Run& run,
                               FailedRows& failed) const {
  const RunRecords& records = work.records;
  Run elements(scratch.arena, plan_.seed, work.position, records.elements.ids.data(), records.rows);
  FailedRows its(elements);
  if (!WorkOnElements(records, elements, scratch.sample, its)) {
    if (run.num_rows() > 1) return false;
    FailByElement(work, scratch, run, failed);
    return true;
  }
  // Of several bad elements of a window the first counts.
  for (int64_t row = 0; row < run.num_rows() && !elements.all_ok(); ++row) {
    for (const uint32_t element : records.elements_of(row)) {
      if (elements.ok(element)) continue;
      run.Fail(row, At(elements.status(element), RefOfElement(records, element)));
      failed.Note(row, its.StageOf(element));
      break;
    }
  }
  run.Bind(scratch.slots[first_op_ - 1]);
  window_->GroupElements(elements, records.elements.at, run);
  scratch.sample.End(first_op_, run);
  return true;
}

}  // namespace millrace::pipeline
