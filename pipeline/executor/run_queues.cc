#include "pipeline/executor/run_queues.h"

namespace millrace::pipeline {

template <typename Run>
Run* PassRuns<Run>::Take() {
  if (idle_.empty()) {
    if (all_.size() == idle_.capacity()) MakeRoom(2 * all_.size() + 8);
    return all_.emplace_back(std::make_unique<Run>()).get();
  }
  Run* const run = idle_.back();
  idle_.pop_back();
  return run;
}

// The idle ones last: Take asks them for the room.
template <typename Run>
void PassRuns<Run>::MakeRoom(size_t runs) {
  waiting_.Reserve(runs);
  ready_.Reserve(runs);
  retry_.reserve(runs);
  idle_.reserve(runs);
}

template <typename Run>
void PassRuns<Run>::TakeIdle(int64_t count, RunList<Run>& list) {
  while (count-- > 0 && list.size() < kMostRuns && !idle_.empty()) {
    list.push_back(idle_.back());
    idle_.pop_back();
  }
}

template <typename Run>
void PassRuns<Run>::Finished() {
  --num_unfinished_;
  --num_admitted_;
}

template <typename Run>
Run* PassRuns<Run>::TakeRetry() {
  if (retry_.empty()) return nullptr;
  Run* const run = retry_.back();
  retry_.pop_back();
  return run;
}

template <typename Run>
void PassRuns<Run>::Clear(MemoryBudget& budget) {
  waiting_.Clear();
  ready_.Clear();
  retry_.clear();
  num_unfinished_ = num_admitted_ = 0;
  idle_.clear();
  for (const auto& run : all_) {
    budget.Release(std::exchange(run->records.reserved_bytes, 0));
    run->Clear();
    idle_.push_back(run.get());
  }
}

template <typename Run>
bool RunQueues::Admit(Run& run) {
  const int64_t bytes = run.records.bytes();
  if (bytes > 0 && !budget_.TryReserve(bytes)) {
    if (!NoneAdmitted()) return false;
    budget_.Reserve(bytes);
  }
  run.records.reserved_bytes = bytes;
  of<Run>().Admitted();
  return true;
}

template <typename Run>
std::vector<Run*> RunQueues::AdmitPlanned(const std::vector<Run*>& runs) {
  PassRuns<Run>& pass = of<Run>();
  std::vector<Run*> admitted;
  pass.Planned(runs.size());
  for (Run* run : runs) {
    if (pass.waits() || !Admit(*run)) {
      pass.PutWaiting(run);
    } else if (run->records.bytes() == 0) {
      pass.PutReady(run);
    } else {
      admitted.push_back(run);
    }
  }
  return admitted;
}

template <typename Run>
Run* RunQueues::TakeAdmitted() {
  PassRuns<Run>& pass = of<Run>();
  return pass.waits() && Admit(pass.first_waiting()) ? pass.TakeWaiting() : nullptr;
}

std::unique_ptr<RunScratch> RunQueues::TakeScratch() {
  if (idle_scratch_.empty()) return nullptr;
  std::unique_ptr<RunScratch> scratch = std::move(idle_scratch_.back());
  idle_scratch_.pop_back();
  return scratch;
}

void RunQueues::GiveBack(std::unique_ptr<RunScratch> scratch) {
  if (scratch != nullptr) idle_scratch_.push_back(std::move(scratch));
}

void RunQueues::Clear() {
  rows_.Clear(budget_);
  scan_.Clear(budget_);
  planning_ = false;
}

void RunQueues::ReleaseScratch() {
  for (const auto& scratch : idle_scratch_) budget_.Release(scratch->reserved_bytes);
  idle_scratch_.clear();
}

template class PassRuns<RowsRun>;
template class PassRuns<ScanRun>;
template bool RunQueues::Admit(RowsRun& run);
template bool RunQueues::Admit(ScanRun& run);
template std::vector<RowsRun*> RunQueues::AdmitPlanned(const std::vector<RowsRun*>& runs);
template std::vector<ScanRun*> RunQueues::AdmitPlanned(const std::vector<ScanRun*>& runs);
template RowsRun* RunQueues::TakeAdmitted();
template ScanRun* RunQueues::TakeAdmitted();

}  // namespace millrace::pipeline
