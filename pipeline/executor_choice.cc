#include <algorithm>

#include "pipeline/executor_internal.h"

// What to do next, under the executor's mutex. The order of choices: single reads of a run that
// could not be read whole; reads that wait for the budget; rows to plan, while too little is on its
// way; the lowest ready run; more rows to plan.

namespace millrace::pipeline {

// A batch may be opened when the budget has room for its slab. The oldest batch is opened in any
// case, so that there is always progress, unless consumers hold so much that it could never fit.
Executor::Admission Executor::BatchAdmissionLocked() const {
  const auto bytes = static_cast<int64_t>(parts_.layout->slab_bytes);
  if (budget_->Fits(bytes)) return Admission::kYes;
  if (!ring_.empty()) return Admission::kWait;
  return budget_->HeldLeavesNoRoomFor(bytes) ? Admission::kHeldByConsumer : Admission::kYes;
}

bool Executor::RowsUnclaimedLocked() const {
  return !ring_.empty() && ring_.back()->claimed_rows < ring_.back()->valid_rows;
}

bool Executor::MayOpenLocked() const {
  return !opening_ && !error_seen_ && next_batch_ != parts_.order.num_batches() &&
         ring_.size() < static_cast<size_t>(parts_.prefetch_batches) && !RowsUnclaimedLocked() &&
         BatchAdmissionLocked() == Admission::kYes;
}

bool Executor::RunFitsLocked(const RunWork& run) const {
  return admitted_runs_ == 0 || budget_->Fits(run.bytes());
}

// Reserves the run's read buffer; alone it is always admitted. The caller submits it at once.
bool Executor::AdmitRunLocked(RunWork& run) {
  if (!budget_->TryReserve(run.bytes())) {
    if (admitted_runs_ > 0) return false;
    budget_->Reserve(run.bytes());
  }
  run.reserved_bytes = run.bytes();
  ++admitted_runs_;
  return true;
}

Executor::Item Executor::PickPlanLocked() {
  if (RowsUnclaimedLocked()) {
    OpenBatch* batch = ring_.back().get();
    const int64_t first = batch->claimed_rows;
    const int64_t rows = std::min(RowsPerRun(), batch->valid_rows - first);
    batch->claimed_rows += rows;
    return {.kind = Item::Kind::kPlan, .batch = batch, .first_row = first, .num_rows = rows};
  }
  if (!MayOpenLocked()) return {};
  const auto bytes = static_cast<int64_t>(parts_.layout->slab_bytes);
  // Between the check and here another pipeline may have taken the room: with batches of our own in
  // the ring that means waiting, without any the batch is the oldest and goes over the limit.
  if (!budget_->TryReserve(bytes)) {
    if (!ring_.empty()) return {};
    budget_->Reserve(bytes);
  }
  opening_ = true;
  return {.kind = Item::Kind::kOpen, .batch_index = next_batch_++};
}

Executor::Item Executor::PickLocked() {
  if (stopped_) return {};
  if (!retry_.empty()) {
    RunWork* run = retry_.back();
    retry_.pop_back();
    return {.kind = Item::Kind::kSubmit, .run = run};
  }
  if (!waiting_.empty() && AdmitRunLocked(*waiting_.top())) {
    RunWork* run = waiting_.top();
    waiting_.pop();
    return {.kind = Item::Kind::kSubmit, .run = run};
  }
  const bool may_plan = waiting_.empty();
  if (may_plan && unfinished_runs_ < read_ahead_runs_) {
    const Item item = PickPlanLocked();
    if (item.kind != Item::Kind::kNone) return item;
  }
  if (!ready_.empty()) {
    RunWork* run = ready_.top();
    ready_.pop();
    return {.kind = Item::Kind::kProcess, .run = run};
  }
  return may_plan ? PickPlanLocked() : Item{};
}

// Items that could be begun now; planning counts as one, since whoever begins it wakes the next.
int64_t Executor::AvailableLocked() const {
  if (stopped_) return 0;
  int64_t items = static_cast<int64_t>(ready_.size() + retry_.size());
  if (!waiting_.empty()) return items + (RunFitsLocked(*waiting_.top()) ? 1 : 0);
  return items + (RowsUnclaimedLocked() || MayOpenLocked() ? 1 : 0);
}

void Executor::WakeWorkersLocked() {
  const int64_t available = AvailableLocked();
  while (tasks_ < num_threads_ && tasks_ - busy_ < available) {
    ++tasks_;
    parts_.context->workers().Enqueue([this] { RunTask(); });
  }
}

void Executor::NotifyIfIdleLocked() {
  if (tasks_ == 0 && reads_ == 0) idle_.NotifyAll();
}

}  // namespace millrace::pipeline
