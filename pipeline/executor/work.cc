#include <algorithm>
#include <utility>

#include "pipeline/executor/executor.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kRunNanoseconds = 50'000;  // of work in a run, by measured cost
// How long a consumer may have waited before it is woken between two short items. A wake-up takes
// about 10 us of processor time, more than a batch of a thousand numbers.
constexpr int64_t kWakeNanoseconds = 500'000;
constexpr int64_t kAdaptNanoseconds = 1'000'000;  // between two looks while the consumer waits
constexpr int64_t kMaxRunRows = 1024;
constexpr int64_t kFirstRunRows = 32;           // before a cost was measured
constexpr size_t kSmallSlabBytes = 1 << 20;     // opened in no time
constexpr int64_t kKeptArenaBytes = 512 << 10;  // of a worker, whatever the budget says
// After so long a task queues up again, so that a pipeline which has used less may be next.
constexpr int64_t kTaskNanoseconds = 8 * kRunNanoseconds;

}  // namespace

void Executor::CallWorkers(int tasks) {
  Workers& workers = parts_.context->workers();
  for (int i = 0; i < tasks; ++i) workers.Enqueue(group_, [this] { RunTask(); });
}

void Executor::RunTask() {
  TaskClock clock;
  std::optional<WorkItem> item;
  while (NextItem(clock, item)) Execute(*item);
}

// Ends `item`, if there is one, and makes it what the task does next. False: the task has ended,
// and the executor may be gone.
bool Executor::NextItem(TaskClock& clock, std::optional<WorkItem>& item) {
  Locked lock(*this);
  const int64_t now_ns = Now();
  if (!item.has_value()) {
    clock.task_ns = now_ns;
  } else {
    EndWorkLocked(clock.item_ns, now_ns);
    EndItemLocked(*item);
  }
  item.emplace();
  if (wait_begins_ >= 0 && now_ns - adapted_ns_ >= kAdaptNanoseconds) AdaptLocked();
  const bool may_go_on = now_ns - clock.task_ns < kTaskNanoseconds;
  bool goes_on = may_go_on && PickLocked(*item);
  if (wake_due_ && (!goes_on || now_ns - wait_begins_ >= kWakeNanoseconds)) {
    wake_due_ = false;
    consumer_to_call_ = true;
  }
  // While this task keeps the executor.
  if (!goes_on && lock.Call()) goes_on = may_go_on && PickLocked(*item);
  if (!goes_on) {
    EndTaskLocked();
    return false;
  }
  clock.item_ns = now_ns;
  BeginWorkLocked(now_ns);
  WakeWorkersLocked();
  return true;
}

// What an item leaves to be done under the mutex, which is held between two items anyway. Runs that
// are done, or that a plan did not need, are idle again.
void Executor::EndItemLocked(WorkItem& item) {
  if (item.kind == WorkItem::Kind::kProcess) {
    for (RunWork* const run : item.runs) FinishRunLocked(*run);
    KeepScratchLocked(std::move(item.scratch));
    item.batch->remaining_rows -= item.num_rows;
    if (item.batch->remaining_rows == 0) FilledLocked(item.batch);
  }
  idle_runs_.insert(idle_runs_.end(), item.runs.begin(), item.runs.end());
}

void Executor::EndTaskLocked() {
  --tasks_;
  AdaptLocked();
  WakeWorkersLocked();
  // An opening that was put off may have been what the consumer waits for. Called under the mutex:
  // nothing may keep the executor afterwards.
  if (wake_due_ || (ring_.empty() && !opening_)) batch_ready_.NotifyAll();
  NotifyIfIdleLocked();
}

void Executor::Execute(WorkItem& item) {
  switch (item.kind) {
    case WorkItem::Kind::kNone:
      return;
    case WorkItem::Kind::kOpen:
      return Open(item);
    case WorkItem::Kind::kPlan:
      return PlanRuns(item);
    case WorkItem::Kind::kSubmit:
      return Submit(item.run);
    case WorkItem::Kind::kProcess:
      return ProcessRuns(item);
    case WorkItem::Kind::kFinish:
      return FinishBatch(item);
    case WorkItem::Kind::kScan:
      return ScanRuns(item);
    case WorkItem::Kind::kExamine:
      return ExamineRun(item);
    case WorkItem::Kind::kSettle:
      return Settle();
  }
}

int64_t Executor::RowsAtCost(int64_t cost) const {
  if (parts_.rows_per_run > 0) return std::min(parts_.rows_per_run, kMaxRunRows);
  const int64_t rows = cost == 0 ? kFirstRunRows : kRunNanoseconds / cost;
  return std::clamp(rows, std::min(processor_.preferred_rows(), kMaxRunRows), kMaxRunRows);
}

int64_t Executor::RowsPerRun() const {
  return RowsAtCost(row_nanoseconds_.load(std::memory_order_relaxed));
}

// Runs are planned several at a time, but long ones one by one: each takes the read buffer that the
// one before it has given back.
int64_t Executor::RowsPerPlan() const {
  const int64_t rows = RowsPerRun();
  const int64_t cost = rows * row_nanoseconds_.load(std::memory_order_relaxed);
  const int64_t runs =
      cost == 0 ? kMostRuns : std::clamp<int64_t>(kTaskNanoseconds / cost, 1, kMostRuns);
  return std::min(runs * rows, kMaxRunRows);
}

int64_t Executor::RowsPerScan() const {
  return RowsAtCost(scan_nanoseconds_.load(std::memory_order_relaxed));
}

// Whether whatever a worker does next ends soon.
bool Executor::ItemsAreShort(size_t next_slab_bytes) const {
  const auto is_short = [this](const std::atomic<int64_t>& row_nanoseconds) {
    const int64_t cost = row_nanoseconds.load(std::memory_order_relaxed);
    return cost > 0 && cost * processor_.preferred_rows() <= kRunNanoseconds;
  };
  return is_short(row_nanoseconds_) && (examiner_ == nullptr || is_short(scan_nanoseconds_)) &&
         parts_.batch_ops.empty() && next_slab_bytes <= kSmallSlabBytes;
}

// One of those that `item` has, or else of all.
RunWork* Executor::TakeRun(WorkItem& item) {
  if (item.runs.empty()) {
    Locked lock(*this);
    TakeIdleRunsLocked(1, item);
    if (item.runs.empty()) {
      runs_.push_back(std::make_unique<RunWork>());
      return runs_.back().get();
    }
  }
  RunWork* const run = item.runs.back();
  item.runs.pop_back();
  return run;
}

// The order is evaluated by one worker at a time, mostly in ascending order.
OrderMemo* Executor::MemoOf(const BatchOrder& order) {
  if (&order != memo_order_) memo_ = OrderMemo(order.records());
  memo_order_ = &order;
  return &memo_;
}

void Executor::FillIds(const WorkItem& item) {
  OpenBatch& batch = *item.batch;
  const uint64_t first_row = parts_.slice.first_row + static_cast<uint64_t>(item.first_row);
  batch.order->Fill(batch.place, first_row,
                    {batch.data->ids() + item.first_row, static_cast<size_t>(item.num_rows)},
                    MemoOf(*batch.order));
  Locked lock(*this);
  planning_ = false;
  WakeWorkersLocked();
}

std::vector<RunWork*> Executor::CutRuns(WorkItem& item) {
  const readers::RecordSource& source = *parts_.source;
  const SampleId* const ids = item.batch->data->ids() + item.first_row;
  const int64_t most = RowsPerRun();
  std::vector<RunWork*> runs;
  runs.reserve(kMostRuns);
  for (int64_t row = 0; row < item.num_rows;) {
    RunWork* const run = runs.emplace_back(TakeRun(item));
    run->batch = item.batch;
    run->first_row = item.first_row + row;
    run->position = item.batch->first_position + static_cast<uint64_t>(item.first_row + row);
    const auto rows = static_cast<size_t>(std::min(most, item.num_rows - row));
    row +=
        LocateRun(source, parts_.zip.get(), {ids + row, rows}, processor_.preferred_rows(), *run);
  }
  return runs;
}

// Rows of a closed batch need not lie side by side: the slots of a short lane's missing rows are
// between them.
std::vector<RunWork*> Executor::CutClosedRuns(WorkItem& item) {
  const OpenBatch& batch = *item.batch;
  const int64_t end = item.first_row + item.num_rows;
  const int64_t most = RowsPerRun();
  std::vector<RunWork*> runs;
  for (int64_t i = item.first_row; i < end;) {
    const int64_t slot = batch.rows[static_cast<size_t>(i)].slot;
    int64_t next = i + 1;
    while (next < std::min(end, i + most) &&
           batch.rows[static_cast<size_t>(next)].slot == slot + next - i) {
      ++next;
    }
    RunWork* const run = runs.emplace_back(TakeRun(item));
    run->batch = item.batch;
    run->first_row = slot;
    run->position = batch.first_position + static_cast<uint64_t>(slot);
    i += FindRows(batch, i, next, *run);
  }
  return runs;
}

// Makes `run` one of rows [begin, end) of a closed batch, or of the first of them; returns their
// number.
int64_t Executor::FindRows(const OpenBatch& batch, int64_t begin, int64_t end, RunWork& run) {
  const auto rows =
      std::span(batch.rows).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  const int64_t kept = TakeKept(keeper_, rows, processor_.preferred_rows(), run);
  if (kept > 0) return kept;
  return LocateRun(*parts_.source, parts_.zip.get(),
                   {batch.data->ids() + rows.front().slot, rows.size()},
                   processor_.preferred_rows(), run);
}

void Executor::PlanRuns(WorkItem& item) {
  if (!item.batch->closed) FillIds(item);
  const std::vector<RunWork*> runs = item.batch->closed ? CutClosedRuns(item) : CutRuns(item);
  std::vector<RunWork*> admitted;
  {
    Locked lock(*this);
    admitted = AdmitLocked(rows_, runs);
  }
  for (RunWork* run : admitted) Submit(run);
}

// Returns the runs that are to be read and that the budget takes now; the others wait, or need no
// bytes.
std::vector<RunWork*> Executor::AdmitLocked(RunPass& pass, const std::vector<RunWork*>& runs) {
  std::vector<RunWork*> admitted;
  pass.unfinished += static_cast<int64_t>(runs.size());
  for (RunWork* run : runs) {
    if (!pass.waiting.empty() || !AdmitRunLocked(pass, *run)) {
      pass.waiting.push(run);
    } else if (run->bytes() == 0) {
      pass.ready.push(run);
    } else {
      admitted.push_back(run);
    }
  }
  return admitted;
}

void Executor::Submit(RunWork* run) {
  std::vector<ReadRequest> reads = MakeReads(*parts_.source, *run);
  {
    Locked lock(*this);
    if (reads.empty()) {
      (run->batch != nullptr ? rows_ : scan_).ready.push(run);
      return;
    }
    ++reads_;
  }
  // Not under the mutex: the engine may call back before it returns.
  parts_.context->io().Submit(std::move(reads), [this, run](std::vector<absl::Status> status) {
    OnRead(run, std::move(status));
  });
}

void Executor::OnRead(RunWork* run, std::vector<absl::Status> status) {
  run->read_status = std::move(status);
  counters_.bytes_read.Add(run->bytes());
  {
    Locked lock(*this);
    if (!run->alone && NeedsSingleReads(*run)) {
      run->alone = true;
      retry_.push_back(run);
    } else {
      (run->batch != nullptr ? rows_ : scan_).ready.push(run);
    }
    WakeWorkersLocked();
  }
  MutexLock lock(mu_);
  --reads_;  // until here it keeps the executor
  // The consumer may wait for no more than that nothing is under way.
  if (tasks_ == 0 && reads_ == 0 && ring_.empty() && !opening_) batch_ready_.NotifyAll();
  NotifyIfIdleLocked();
}

std::unique_ptr<RunScratch> Executor::MakeScratch() const {
  return std::make_unique<RunScratch>(processor_.MakeScratch());
}

// Counts what the arena has grown by. A large one is freed when the budget is over its limit, so
// that one large record does not take the room of all that follow.
std::unique_ptr<RunScratch> Executor::CountScratch(std::unique_ptr<RunScratch> scratch) {
  const auto capacity = static_cast<int64_t>(scratch->arena.capacity_bytes());
  if (capacity != scratch->reserved_bytes) budget_->Reserve(capacity - scratch->reserved_bytes);
  scratch->reserved_bytes = capacity;
  if (capacity > kKeptArenaBytes && !budget_->Fits(0)) {
    scratch.reset();
    budget_->Release(capacity);
  }
  return scratch;
}

void Executor::KeepScratchLocked(std::unique_ptr<RunScratch> scratch) {
  if (scratch != nullptr) idle_scratch_.push_back(std::move(scratch));
}

// A running mean over about eight runs; racing updates lose one sample, which does no harm.
void Executor::LearnCost(std::atomic<int64_t>& mean_nanoseconds, int64_t nanoseconds,
                         int64_t rows) {
  counters_.work_nanoseconds.Add(nanoseconds);
  const int64_t cost = std::max<int64_t>(1, nanoseconds / rows);
  const int64_t mean = mean_nanoseconds.load(std::memory_order_relaxed);
  mean_nanoseconds.store(mean == 0 ? cost : std::max<int64_t>(1, mean + (cost - mean) / 8),
                         std::memory_order_relaxed);
}

void Executor::ProcessRuns(WorkItem& item) {
  if (item.scratch == nullptr) item.scratch = MakeScratch();
  int64_t reserved = 0;
  const int64_t begin_ns = Now();
  for (RunWork* const run : item.runs) {
    run->bad_rows = processor_.Process(*run, *item.scratch);
    reserved += std::exchange(run->reserved_bytes, 0);
    run->DropRecords();
  }
  LearnCost(row_nanoseconds_, Now() - begin_ns, item.num_rows);
  if (reserved != 0) budget_->Release(reserved);
  counters_.records_read.Add(item.num_rows);
  item.scratch = CountScratch(std::move(item.scratch));
}

void Executor::FinishRunLocked(RunWork& run) {
  for (BadRow& bad : run.bad_rows) {
    error_seen_ = error_seen_ || !bad.tolerable;
    run.batch->AddBadRow(std::move(bad));
  }
  --rows_.unfinished;
  --rows_.admitted;
  run.Clear();
}

}  // namespace millrace::pipeline
