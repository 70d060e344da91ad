#ifndef MILLRACE_PIPELINE_EXECUTOR_RUN_QUEUES_H_
#define MILLRACE_PIPELINE_EXECUTOR_RUN_QUEUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "pipeline/executor/scan_run.h"
#include "pipeline/executor/work_item.h"
#include "pipeline/run/processor.h"
#include "pipeline/run/rows_run.h"

// The runs of both passes: those that wait for the memory budget, those whose reads have to be done
// again record by record, those whose bytes have come, and the pool of idle ones.

namespace millrace::pipeline {

// Runs, the lowest position first.
template <typename Run>
class RunHeap {
 public:
  bool empty() const { return runs_.empty(); }
  size_t size() const { return runs_.size(); }
  Run* first() const { return runs_.front(); }
  void Reserve(size_t runs) { runs_.reserve(runs); }
  void Put(Run* run) {
    runs_.push_back(run);
    std::ranges::push_heap(runs_, IsLater);
  }
  Run* Take() {
    std::ranges::pop_heap(runs_, IsLater);
    Run* const run = runs_.back();
    runs_.pop_back();
    return run;
  }
  void Clear() { runs_.clear(); }

 private:
  static bool IsLater(const Run* a, const Run* b) { return a->position > b->position; }

  std::vector<Run*> runs_;
};

// The runs of one pass. Only Take takes memory: then there is room for one more run wherever runs
// are put, so that one whose bytes have come can always be put there. Thread-compatible; the
// executor's mutex guards it.
template <typename Run>
class PassRuns {
 public:
  // The pool. Returns an idle run, or a new one.
  Run* Take();
  // Moves up to `count` idle runs to `list`, as long as that has room.
  void TakeIdle(int64_t count, RunList<Run>& list);
  void GiveBack(Run* run) { idle_.push_back(run); }
  void GiveBack(const RunList<Run>& runs) { idle_.insert(idle_.end(), runs.begin(), runs.end()); }

  // The number of runs between planning and their end.
  int64_t num_unfinished() const { return num_unfinished_; }
  void Planned(size_t count) { num_unfinished_ += static_cast<int64_t>(count); }
  // A run that was admitted has come to its end.
  void Finished();

  // Runs that wait for the budget, the lowest position first.
  bool waits() const { return !waiting_.empty(); }
  Run& first_waiting() const { return *waiting_.first(); }
  void PutWaiting(Run* run) { waiting_.Put(run); }
  Run* TakeWaiting() { return waiting_.Take(); }
  // The number of runs with a place in the budget. They come to their end, however many others
  // wait.
  int64_t num_admitted() const { return num_admitted_; }
  void Admitted() { ++num_admitted_; }

  // Runs to be read again, record by record.
  void PutRetry(Run* run) { retry_.push_back(run); }
  size_t num_retries() const { return retry_.size(); }
  // Returns one of them, or nullptr.
  Run* TakeRetry();

  // Runs to work on, the lowest position first.
  void PutReady(Run* run) { ready_.Put(run); }
  size_t num_ready() const { return ready_.size(); }
  const Run& first_ready() const { return *ready_.first(); }
  Run* TakeReady() { return ready_.Take(); }

  // Empties the queues: every run is idle, and gives back its place in the budget.
  void Clear(MemoryBudget& budget);

 private:
  void MakeRoom(size_t runs);

  RunHeap<Run> waiting_;
  RunHeap<Run> ready_;
  std::vector<Run*> retry_;
  int64_t num_unfinished_ = 0;
  int64_t num_admitted_ = 0;
  std::vector<std::unique_ptr<Run>> all_;
  std::vector<Run*> idle_;
};

// Thread-compatible; the executor's mutex guards it.
class RunQueues {
 public:
  // Borrows the budget for its lifetime.
  RunQueues(MemoryBudget& budget, int max_threads) : budget_(budget) {
    idle_scratch_.reserve(static_cast<size_t>(max_threads));
  }

  // The runs of pass 2 (RowsRun) or of pass 1 (ScanRun).
  template <typename Run>
  PassRuns<Run>& of() {
    if constexpr (std::is_same_v<Run, RowsRun>) {
      return rows_;
    } else {
      return scan_;
    }
  }
  PassRuns<RowsRun>& rows() { return rows_; }
  const PassRuns<RowsRun>& rows() const { return rows_; }
  PassRuns<ScanRun>& scan() { return scan_; }
  const PassRuns<ScanRun>& scan() const { return scan_; }

  // True while no run waits for the budget or is to be read again.
  bool NothingToSubmit() const {
    return !rows_.waits() && !scan_.waits() && rows_.num_retries() + scan_.num_retries() == 0;
  }
  // True while no run of either pass has a place in the budget.
  bool NoneAdmitted() const { return rows_.num_admitted() + scan_.num_admitted() == 0; }
  // True if the lowest run that waits in a pass could be admitted.
  template <typename Run>
  bool FirstWaitingFits(const PassRuns<Run>& pass) const {
    return pass.waits() && (NoneAdmitted() || budget_.Fits(pass.first_waiting().records.bytes()));
  }
  // Reserves the run's read buffer; false if it has to wait. If no other run has one it is admitted
  // over the limit. The caller submits an admitted run at once.
  template <typename Run>
  bool Admit(Run& run);
  // Counts runs that were just planned. Returns those that are to be read and that the budget takes
  // now; the others wait, or are ready since they need no bytes.
  template <typename Run>
  std::vector<Run*> AdmitPlanned(const std::vector<Run*>& runs);
  // Returns the lowest run that waits in its pass, admitted; or nullptr.
  template <typename Run>
  Run* TakeAdmitted();

  // Memory for workers.
  std::unique_ptr<RunScratch> TakeScratch();
  void GiveBack(std::unique_ptr<RunScratch> scratch);

  // True while a worker evaluates the order, for either pass.
  bool planning() const { return planning_; }
  void SetPlanning(bool planning) { planning_ = planning; }

  // Forgets all runs; they are idle again.
  void Clear();
  // Gives the memory of idle workers back to the budget, for good.
  void ReleaseScratch();

 private:
  MemoryBudget& budget_;
  PassRuns<RowsRun> rows_;
  PassRuns<ScanRun> scan_;
  bool planning_ = false;  // true while a worker evaluates the order
  std::vector<std::unique_ptr<RunScratch>> idle_scratch_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_RUN_QUEUES_H_
