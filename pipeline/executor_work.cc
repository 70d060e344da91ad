#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "pipeline/executor_internal.h"
#include "pipeline/resume_token_internal.h"

namespace millrace::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRunNanoseconds = 50'000;  // of work in a run, by measured cost
constexpr int64_t kMaxRunRows = 1024;
constexpr int64_t kFirstRunRows = 32;  // before a cost was measured
constexpr int64_t kMaxRunBytes = 256 << 10;
// Items that one task executes before it queues up again behind other pipelines' tasks.
constexpr int kItemsPerTask = 8;

void ZeroPadding(BatchData& data, int64_t valid_rows) {
  const BatchLayout& layout = *data.layout;
  const auto valid = static_cast<size_t>(valid_rows);
  const size_t padding = static_cast<size_t>(layout.num_rows) - valid;
  std::memset(data.valid(), 1, valid);
  if (padding == 0) return;
  std::memset(data.valid() + valid, 0, padding);
  std::fill_n(data.ids() + valid, padding, SampleId{});
  for (size_t i = 0; i < layout.fields.size(); ++i) {
    const size_t row_bytes = layout.row_bytes[i];
    std::memset(data.tensor(i) + valid * row_bytes, 0, padding * row_bytes);
  }
}

// Rows of the slice [slice.first_row, slice.first_row + slice.num_rows) below `valid_rows`.
int64_t ValidRowsOfSlice(const RankSlice& slice, uint64_t valid_rows) {
  if (valid_rows <= slice.first_row) return 0;
  return static_cast<int64_t>(std::min(slice.num_rows, valid_rows - slice.first_row));
}

}  // namespace

void Executor::RunTask() {
  for (int executed = 0;; ++executed) {
    Item item;
    {
      MutexLock lock(mu_);
      if (executed > 0) --busy_;
      if (executed < kItemsPerTask) item = PickLocked();
      if (item.kind == Item::Kind::kNone) {
        --tasks_;
        WakeWorkersLocked();
        // An opening that was put off may have been what the consumer waits for.
        if (ring_.empty() && !opening_) batch_ready_.NotifyAll();
        NotifyIfIdleLocked();
        return;
      }
      ++busy_;
      WakeWorkersLocked();
    }
    Execute(item);
  }
}

void Executor::Execute(const Item& item) {
  switch (item.kind) {
    case Item::Kind::kNone:
      return;
    case Item::Kind::kOpen:
      return OpenNext(item.batch_index);
    case Item::Kind::kPlan:
      return PlanRuns(item);
    case Item::Kind::kSubmit:
      return Submit(item.run);
    case Item::Kind::kProcess:
      return ProcessRun(item.run);
  }
}

void Executor::OpenNext(uint64_t index) {
  auto batch = std::make_unique<OpenBatch>();
  batch->place = parts_.order.Place(index);
  batch->data = std::make_shared<BatchData>(parts_.layout, pool_, budget_);
  BatchData& data = *batch->data;
  data.index = index;
  data.epoch = batch->place.epoch;
  data.ends_epoch = batch->place.ends_epoch;
  data.num_global_valid_rows = static_cast<int64_t>(batch->place.valid_rows);
  data.first_global_row = static_cast<int64_t>(parts_.slice.first_row);
  data.resume_token = ResumeToken{parts_.plan.semantics_version, parts_.plan.plan_fingerprint,
                                  parts_.source->Fingerprint(), index + 1}
                          .ToString();
  absl::StatusOr<std::byte*> slab = pool_->Take();
  if (slab.ok()) {
    data.slab = *slab;
    batch->valid_rows = ValidRowsOfSlice(parts_.slice, batch->place.valid_rows);
    data.num_valid_rows = batch->valid_rows;
    batch->remaining_rows = batch->valid_rows;
    ZeroPadding(data, batch->valid_rows);
  } else {
    batch->error = slab.status();
  }
  MutexLock lock(mu_);
  opening_ = false;
  error_seen_ = error_seen_ || !batch->error.ok();
  ring_.push_back(std::move(batch));
  if (ring_.front()->remaining_rows == 0) batch_ready_.NotifyAll();
}

int64_t Executor::RowsPerRun() const {
  const int64_t cost = row_nanoseconds_.load(std::memory_order_relaxed);
  const int64_t rows = cost == 0 ? kFirstRunRows : kRunNanoseconds / cost;
  return std::clamp(rows, std::min(processor_.preferred_rows(), kMaxRunRows), kMaxRunRows);
}

RunWork* Executor::TakeRun() {
  MutexLock lock(mu_);
  if (idle_runs_.empty()) {
    runs_.push_back(std::make_unique<RunWork>());
    return runs_.back().get();
  }
  RunWork* run = idle_runs_.back();
  idle_runs_.pop_back();
  return run;
}

std::vector<RunWork*> Executor::CutRuns(const Item& item) {
  const readers::RecordSource& source = *parts_.source;
  SampleId* const ids = item.batch->data->ids() + item.first_row;
  const uint64_t first_row = parts_.slice.first_row + static_cast<uint64_t>(item.first_row);
  parts_.order.Fill(item.batch->place, first_row, {ids, static_cast<size_t>(item.num_rows)});
  std::vector<RunWork*> runs;
  for (int64_t row = 0; row < item.num_rows;) {
    RunWork* const run = runs.emplace_back(TakeRun());
    run->batch = item.batch;
    run->first_row = item.first_row + row;
    run->position =
        item.batch->place.index * parts_.plan.batch.size + first_row + static_cast<uint64_t>(row);
    row += LocateRun(source, {ids + row, static_cast<size_t>(item.num_rows - row)},
                     processor_.preferred_rows(), kMaxRunBytes, *run);
  }
  return runs;
}

void Executor::PlanRuns(const Item& item) {
  const std::vector<RunWork*> runs = CutRuns(item);
  std::vector<RunWork*> admitted;
  {
    MutexLock lock(mu_);
    unfinished_runs_ += static_cast<int64_t>(runs.size());
    for (RunWork* run : runs) {
      if (waiting_.empty() && AdmitRunLocked(*run)) {
        admitted.push_back(run);
      } else {
        waiting_.push(run);
      }
    }
  }
  for (RunWork* run : admitted) Submit(run);
}

void Executor::Submit(RunWork* run) {
  std::vector<ReadRequest> reads = MakeReads(*parts_.source, *run);
  {
    MutexLock lock(mu_);
    if (reads.empty()) {
      ready_.push(run);
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
  MutexLock lock(mu_);
  --reads_;
  if (!run->alone && NeedsSingleReads(*run)) {
    run->alone = true;
    retry_.push_back(run);
  } else {
    ready_.push(run);
  }
  WakeWorkersLocked();
  NotifyIfIdleLocked();
}

std::unique_ptr<RunScratch> Executor::TakeScratch() {
  {
    MutexLock lock(mu_);
    if (!idle_scratch_.empty()) {
      std::unique_ptr<RunScratch> scratch = std::move(idle_scratch_.back());
      idle_scratch_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<RunScratch>(processor_.MakeScratch());
}

void Executor::ProcessRun(RunWork* run) {
  std::unique_ptr<RunScratch> scratch = TakeScratch();
  const Clock::time_point start = Clock::now();
  RunOutcome outcome = processor_.Process(*run, *scratch);
  const int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  counters_.work_nanoseconds.Add(nanoseconds);
  counters_.records_read.Add(run->num_rows());
  // A running mean over about eight runs; racing updates lose one sample, which does no harm.
  const int64_t cost = std::max<int64_t>(1, nanoseconds / run->num_rows());
  const int64_t mean = row_nanoseconds_.load(std::memory_order_relaxed);
  row_nanoseconds_.store(mean == 0 ? cost : std::max<int64_t>(1, mean + (cost - mean) / 8),
                         std::memory_order_relaxed);
  const auto capacity = static_cast<int64_t>(scratch->arena.capacity_bytes());
  budget_->Reserve(capacity - scratch->reserved_bytes);
  scratch->reserved_bytes = capacity;
  {
    MutexLock lock(mu_);
    idle_scratch_.push_back(std::move(scratch));
  }
  FinishRun(run, std::move(outcome));
}

void Executor::FinishRun(RunWork* run, RunOutcome outcome) {
  OpenBatch* const batch = run->batch;
  const int64_t first_row = run->first_row;
  const int64_t num_rows = run->num_rows();
  const int64_t reserved = std::exchange(run->reserved_bytes, 0);
  run->Clear();
  budget_->Release(reserved);
  MutexLock lock(mu_);
  idle_runs_.push_back(run);
  --unfinished_runs_;
  --admitted_runs_;
  if (outcome.num_bad_rows > 0) {
    error_seen_ = true;
    batch->num_bad_rows += outcome.num_bad_rows;
    if (first_row + outcome.first_bad_row < batch->error_row) {
      batch->error_row = first_row + outcome.first_bad_row;
      batch->error = std::move(outcome.error);
    }
  }
  batch->remaining_rows -= num_rows;
  if (batch->remaining_rows == 0 && batch == ring_.front().get()) batch_ready_.NotifyAll();
}

}  // namespace millrace::pipeline
