#include <algorithm>

#include "pipeline/executor/executor.h"

// What to do next, under the executor's mutex. The order of choices: single reads of a run that
// could not be read whole; reads that wait for the budget; the ops over a filled batch; settling;
// rows to plan, while too little is on its way; the lowest ready run; more rows to plan. Pass 1
// comes behind all that: positions to look at, while batches are wanted; the lowest ready run.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxScanAhead = uint64_t{1} << 22;
constexpr int64_t kTurnNanoseconds = 200'000;  // of runs that are done in one item

}  // namespace

int64_t Executor::ReadAheadLocked() const { return 2 * thread_target_ + 8; }

bool Executor::AtEndLocked() const {
  if (examiner_ != nullptr) return settled_ && closed_.empty();
  return next_batch_ == OrderLocked().num_batches();
}

// True when there is a next batch whose rows are known.
bool Executor::HasNextLocked() const {
  if (examiner_ != nullptr) return !closed_.empty();
  return !AtEndLocked() && RecordsAreHereLocked();
}

// Of the slab, and of what its token holds of a cut.
int64_t Executor::NextBatchBytesLocked() const {
  if (closed_.empty()) return static_cast<int64_t>(parts_.layout->slab_bytes);
  const ClosedWork& next = *closed_.front();
  const size_t slab_bytes = next.layout == nullptr ? 0 : next.layout->slab_bytes;
  return static_cast<int64_t>(slab_bytes + next.batch.state.size());
}

// A batch may be opened when the budget has room for its slab. The oldest batch is opened in any
// case, so that there is always progress, unless consumers hold so much that it could never fit.
Executor::Admission Executor::BatchAdmissionLocked() const {
  if (!HasNextLocked()) return Admission::kWait;
  const int64_t bytes = NextBatchBytesLocked();
  if (budget_->Fits(bytes)) return Admission::kYes;
  if (!ring_.empty()) return Admission::kWait;
  return budget_->HeldLeavesNoRoomFor(bytes) ? Admission::kHeldByConsumer : Admission::kYes;
}

bool Executor::RowsUnclaimedLocked() const {
  return !ring_.empty() && ring_.back()->claimed_rows < ring_.back()->num_work_rows;
}

// Rows of a closed batch are known; other rows need the order, which one worker evaluates at a
// time.
bool Executor::MayClaimRowsLocked() const {
  return RowsUnclaimedLocked() && (ring_.back()->closed || !planning_);
}

bool Executor::MayOpenLocked() const {
  return !opening_ && !error_seen_ && ring_.size() < static_cast<size_t>(ring_target_) &&
         !RowsUnclaimedLocked() && BatchAdmissionLocked() == Admission::kYes;
}

// Closed batches wait as far as the ring will need them, but one at a time while there is no room.
size_t Executor::ClosedRoomLocked() const {
  const size_t limit = budget_->Fits(0) ? static_cast<size_t>(ring_target_) : 1;
  return closed_.size() < limit ? limit - closed_.size() : 0;
}

bool Executor::MaySettleLocked() const {
  if (examiner_ == nullptr || settling_ || settled_) return false;
  return board_.HasHeads() || (more_closed_ && ClosedRoomLocked() > 0) || end_is_due_;
}

// How far a lane is looked at ahead of the settler: for the batches that are wanted, by the share
// of rows that was kept lately; and at least one run.
uint64_t Executor::ScanAheadLocked() const {
  using Wide = unsigned __int128;
  const uint64_t rows = parts_.plan.batch.size / parts_.plan.lanes + 1;
  const Wide wanted = static_cast<Wide>(rows) * ClosedRoomLocked();
  const Wide ahead = wanted * (examined_rows_ + 1) / (kept_rows_ + 1);
  const auto least = static_cast<uint64_t>(RowsPerScan());
  return std::max(least, static_cast<uint64_t>(std::min<Wide>(ahead, kMaxScanAhead)));
}

bool Executor::MayScanLocked(uint64_t ahead) const {
  return !planning_ && !error_seen_ && !settled_ && !more_closed_ && scan_.waiting.empty() &&
         ClosedRoomLocked() > 0 && board_.num_blocks() < ReadAheadLocked() && !barren_.barren() &&
         board_.MayClaim(ahead);
}

bool Executor::RunFitsLocked(const RunPass& pass) const {
  return !pass.waiting.empty() &&
         (NoRunAdmittedLocked() || budget_->Fits(pass.waiting.top()->bytes()));
}

// One that is admitted comes to its end whatever else waits.
bool Executor::NoRunAdmittedLocked() const { return rows_.admitted + scan_.admitted == 0; }

// Reserves the run's read buffer; alone in both passes it is always admitted. The caller submits it
// at once.
bool Executor::AdmitRunLocked(RunPass& pass, RunWork& run) {
  const int64_t bytes = run.bytes();
  if (bytes > 0 && !budget_->TryReserve(bytes)) {
    if (!NoRunAdmittedLocked()) return false;
    budget_->Reserve(bytes);
  }
  run.reserved_bytes = bytes;
  ++pass.admitted;
  return true;
}

RunWork* Executor::PickWaitingLocked(RunPass& pass) {
  if (pass.waiting.empty() || !AdmitRunLocked(pass, *pass.waiting.top())) return nullptr;
  RunWork* run = pass.waiting.top();
  pass.waiting.pop();
  return run;
}

bool Executor::PickPlanLocked(WorkItem& item) {
  if (MayClaimRowsLocked()) {
    OpenBatch* batch = ring_.back().get();
    const int64_t first = batch->claimed_rows;
    const int64_t rows = std::min(RowsPerPlan(), batch->num_work_rows - first);
    batch->claimed_rows += rows;
    planning_ = planning_ || !batch->closed;
    TakeIdleRunsLocked((rows - 1) / RowsPerRun() + 1, item);
    item.kind = WorkItem::Kind::kPlan;
    item.batch = batch;
    item.first_row = first;
    item.num_rows = rows;
    return true;
  }
  return MayOpenLocked() && PickOpenLocked(item);
}

bool Executor::PickOpenLocked(WorkItem& item) {
  const int64_t bytes = NextBatchBytesLocked();
  // Between the check and here another pipeline may have taken the room: with batches of our own in
  // the ring that means waiting, without any the batch is the oldest and goes over the limit.
  if (!budget_->TryReserve(bytes)) {
    if (!ring_.empty()) return false;
    budget_->Reserve(bytes);
  }
  opening_ = true;
  item.kind = WorkItem::Kind::kOpen;
  item.reserved_bytes = bytes;
  if (!idle_batches_.empty()) {
    item.blank = std::move(idle_batches_.back());
    idle_batches_.pop_back();
  }
  if (examiner_ != nullptr) {
    item.closed = std::move(closed_.front());
    closed_.pop_front();
    next_batch_ = item.closed->batch.index + 1;
  } else {
    item.order = &OrderLocked();
    item.batch_index = next_batch_++;
  }
  return true;
}

bool Executor::PickScanLocked(WorkItem& item) {
  if (examiner_ == nullptr) return false;
  const uint64_t ahead = ScanAheadLocked();  // once: it follows costs that others measure meanwhile
  if (MayScanLocked(ahead)) {
    planning_ = true;
    item.kind = WorkItem::Kind::kScan;
    item.order = &OrderLocked();
    item.claim = board_.Claim(static_cast<uint64_t>(RowsPerScan()), ahead);
    TakeIdleRunsLocked(1, item);
    return true;
  }
  return PickExamineLocked(item);
}

bool Executor::PickExamineLocked(WorkItem& item) {
  if (scan_.ready.empty()) return false;
  item.kind = WorkItem::Kind::kExamine;
  item.run = scan_.ready.top();
  scan_.ready.pop();
  TakeIdleScratchLocked(item);
  return true;
}

// The lowest runs whose bytes have come.
bool Executor::PickProcessLocked(WorkItem& item) {
  if (rows_.ready.empty()) return false;
  item.kind = WorkItem::Kind::kProcess;
  item.batch = rows_.ready.top()->batch;
  do {
    RunWork* const run = rows_.ready.top();
    rows_.ready.pop();
    item.runs.push_back(run);
    item.num_rows += run->num_rows();
  } while (MayJoinLocked(item));
  TakeIdleScratchLocked(item);
  return true;
}

// Whether `item` may have the lowest ready run too: of the same batch, done soon, with one left for
// every worker, and nobody waiting for the memory that a run gives back at the end of the item.
bool Executor::MayJoinLocked(const WorkItem& item) const {
  if (item.runs.size() == kMostRuns) return false;
  if (rows_.ready.size() < static_cast<size_t>(thread_target_)) return false;
  if (!rows_.waiting.empty() || !scan_.waiting.empty()) return false;
  const RunWork& run = *rows_.ready.top();
  const int64_t cost = row_nanoseconds_.load(std::memory_order_relaxed);
  return cost > 0 && run.batch == item.batch &&
         (item.num_rows + run.num_rows()) * cost <= kTurnNanoseconds;
}

// What a worker needs for a run, if some is idle.
void Executor::TakeIdleScratchLocked(WorkItem& item) {
  if (idle_scratch_.empty()) return;
  item.scratch = std::move(idle_scratch_.back());
  idle_scratch_.pop_back();
}

// Runs to be made, so that each need not be asked for under the mutex.
void Executor::TakeIdleRunsLocked(int64_t count, WorkItem& item) {
  while (count-- > 0 && item.runs.size() < kMostRuns && !idle_runs_.empty()) {
    item.runs.push_back(idle_runs_.back());
    idle_runs_.pop_back();
  }
}

// A run whose reads are to begin.
RunWork* Executor::PickSubmitLocked() {
  if (!retry_.empty()) {
    RunWork* const run = retry_.back();
    retry_.pop_back();
    return run;
  }
  RunWork* const run = PickWaitingLocked(rows_);
  return run != nullptr ? run : PickWaitingLocked(scan_);
}

// Reads to begin, and short work that others wait for.
bool Executor::PickUrgentLocked(WorkItem& item) {
  item.run = PickSubmitLocked();
  if (item.run != nullptr) {
    item.kind = WorkItem::Kind::kSubmit;
  } else if (!filled_.empty()) {
    item.kind = WorkItem::Kind::kFinish;
    item.batch = filled_.back();
    filled_.pop_back();
  } else if (MaySettleLocked()) {
    item.kind = WorkItem::Kind::kSettle;
    settling_ = true;
  }
  return item.kind != WorkItem::Kind::kNone;
}

// Makes `item`, which is blank, what to do next; false when there is nothing.
bool Executor::PickLocked(WorkItem& item) {
  if (stopped_ || busy_ >= thread_target_) return false;
  if (PickUrgentLocked(item)) return true;
  const bool may_plan = rows_.waiting.empty();
  if (may_plan && rows_.unfinished < ReadAheadLocked() && PickPlanLocked(item)) return true;
  if (PickProcessLocked(item)) return true;
  return (may_plan && PickPlanLocked(item)) || PickScanLocked(item);
}

// Items that could be begun now; planning counts as one, since whoever begins it wakes the next.
int64_t Executor::AvailableLocked() const {
  if (stopped_) return 0;
  auto items = static_cast<int64_t>(rows_.ready.size() + retry_.size() + filled_.size());
  if (rows_.waiting.empty()) {
    items += MayClaimRowsLocked() || MayOpenLocked() ? 1 : 0;
  } else {
    items += RunFitsLocked(rows_) ? 1 : 0;
  }
  if (examiner_ == nullptr) return items;
  items += static_cast<int64_t>(scan_.ready.size());
  items += (RunFitsLocked(scan_) ? 1 : 0) + (MaySettleLocked() ? 1 : 0);
  return items + (MayScanLocked(ScanAheadLocked()) ? 1 : 0);
}

void Executor::WakeWorkersLocked() {
  if (parts_.growing != nullptr) NoticeGrowthLocked();
  if (tasks_ < thread_target_) {
    const int64_t available = AvailableLocked();
    while (tasks_ < thread_target_ && tasks_ - busy_ < available) {
      ++tasks_;
      ++tasks_to_call_;
    }
  }
  if (parts_.growing != nullptr) WantForPass1Locked();
}

void Executor::NotifyIfIdleLocked() {
  if (tasks_ == 0 && reads_ == 0) idle_.NotifyAll();
}

}  // namespace millrace::pipeline
