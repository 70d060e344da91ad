#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/batch/damage.h"
#include "pipeline/batch/row_store.h"
#include "pipeline/executor/executor.h"
#include "pipeline/order/resume_token.h"
#include "pipeline/stages/apply_caught.h"

// Batches: opened with their slab, filled by runs, finished by the ops over the whole of them.

namespace millrace::pipeline {
namespace {

// Rows of the slice [slice.first_row, slice.first_row + slice.num_rows) below `valid_rows`.
int64_t ValidRowsOfSlice(const RankSlice& slice, uint64_t valid_rows) {
  if (valid_rows <= slice.first_row) return 0;
  return static_cast<int64_t>(std::min(slice.num_rows, valid_rows - slice.first_row));
}

std::vector<TensorView> TensorsOf(const BatchData& data) {
  std::vector<TensorView> tensors;
  const BatchLayout& layout = *data.layout;
  for (size_t i = 0; i < layout.fields.size(); ++i) {
    tensors.push_back({data.tensor(i), layout.fields[i].dtype, layout.shapes[i]});
  }
  return tensors;
}

}  // namespace

ClosedWork::ClosedWork(ClosedBatch batch_in, MemoryBudget& budget_in)
    : batch(std::move(batch_in)),
      budget(budget_in),
      reserved_bytes(static_cast<int64_t>(batch.rows.size() * sizeof(ClosedBatch::Row) +
                                          batch.extents.size() * sizeof(int64_t) +
                                          batch.state.size())) {
  budget.Reserve(reserved_bytes);
}

ClosedWork::~ClosedWork() { budget.Release(reserved_bytes); }

std::string Executor::TokenBehind(uint64_t batch, std::string state) const {
  return ResumeToken{parts_.plan.semantics_version, parts_.plan.plan_fingerprint,
                     parts_.data_fingerprint, batch + 1, std::move(state)}
      .ToString();
}

// False, and then the batch is an error, when there is no memory.
bool Executor::TakeSlab(OpenBatch& batch) {
  absl::StatusOr<std::byte*> slab = pool_->Take(batch.data->layout->slab_bytes);
  if (!slab.ok()) {
    batch.error = slab.status();
    return false;
  }
  batch.data->slab = *slab;
  return true;
}

void Executor::Open(WorkItem& item) {
  std::unique_ptr<OpenBatch> batch = std::move(item.blank);
  if (batch == nullptr) batch = std::make_unique<OpenBatch>();
  *batch = OpenBatch();  // not while a consumer waits for its delivery
  if (item.closed != nullptr) {
    OpenClosed(*item.closed, *batch);
  } else {
    OpenNext(*item.order, item.batch_index, *batch);
  }
  batch->data->reserved_bytes = item.reserved_bytes;
  item.closed.reset();  // not under the mutex
  PutIntoRing(std::move(batch));
}

void Executor::OpenNext(const BatchOrder& order, uint64_t index, OpenBatch& batch) {
  batch.order = &order;
  batch.place = order.Place(index);
  batch.data = std::make_shared<BatchData>(parts_.layout, pool_, budget_);
  batch.first_position = index * parts_.plan.batch.size + parts_.slice.first_row;
  BatchData& data = *batch.data;
  data.index = index;
  data.epoch = batch.place.epoch;
  data.ends_epoch = batch.place.ends_epoch;
  data.num_global_valid_rows = static_cast<int64_t>(batch.place.valid_rows);
  data.first_global_row = static_cast<int64_t>(parts_.slice.first_row);
  data.resume_token = TokenBehind(index, "");
  if (!TakeSlab(batch)) return;
  data.num_valid_rows = ValidRowsOfSlice(parts_.slice, batch.place.valid_rows);
  batch.num_work_rows = batch.remaining_rows = data.num_valid_rows;
  const auto valid = static_cast<size_t>(data.num_valid_rows);
  std::memset(data.valid(), 1, valid);
  std::memset(data.valid() + valid, 0, static_cast<size_t>(data.layout->num_rows) - valid);
  ClearPadding(data);
}

void Executor::OpenClosed(ClosedWork& work, OpenBatch& batch) {
  ClosedBatch& closed = work.batch;
  batch.closed = true;
  const auto& layout = work.layout != nullptr ? work.layout : parts_.layout;
  batch.data = std::make_shared<BatchData>(layout, pool_, budget_);
  batch.first_position =
      closed.index * parts_.plan.batch.size + static_cast<uint64_t>(closed.first_global_row);
  BatchData& data = *batch.data;
  data.index = closed.index;
  data.epoch = closed.epoch;
  data.ends_epoch = closed.ends_epoch;
  data.num_valid_rows = static_cast<int64_t>(closed.rows.size());
  data.num_global_valid_rows = closed.num_global_valid_rows;
  data.first_global_row = closed.first_global_row;
  data.resume_token = TokenBehind(closed.index, std::move(closed.state));
  batch.error = work.layout_error;
  if (batch.error.ok() && TakeSlab(batch)) PlaceClosedRows(closed, batch);
}

// Writes who the rows are; rows that pass 1 found bad are not worked on.
void Executor::PlaceClosedRows(ClosedBatch& closed, OpenBatch& batch) const {
  BatchData& data = *batch.data;
  std::memset(data.valid(), 0, static_cast<size_t>(data.layout->num_rows));
  for (const ClosedBatch::Row& row : closed.rows) {
    data.valid()[row.slot] = 1;
    data.ids()[row.slot] = row.origin.id;
    if (row.error < 0) continue;
    const absl::Status& error = closed.errors[static_cast<size_t>(row.error)];
    batch.AddBadRow(
        {row.slot, processor_.Tolerates(error),
         processor_.Locate(error, LocateSample(*parts_.source, parts_.zip.get(), row.origin.id),
                           batch.first_position + static_cast<uint64_t>(row.slot))});
  }
  if (parts_.plan.damage.policy == DamageSpec::Policy::kSkip) {
    batch.lanes.resize(static_cast<size_t>(data.layout->num_rows), 0);
    for (const ClosedBatch::Row& row : closed.rows) {
      batch.lanes[static_cast<size_t>(row.slot)] = row.lane;
    }
  }
  ClearPadding(data);
  batch.rows = std::move(closed.rows);
  if (batch.num_bad_rows > 0) {
    std::erase_if(batch.rows, [](const ClosedBatch::Row& row) { return row.error >= 0; });
  }
  batch.num_work_rows = batch.remaining_rows = static_cast<int64_t>(batch.rows.size());
}

void Executor::PutIntoRing(std::unique_ptr<OpenBatch> batch) {
  Locked lock(*this);
  opening_ = false;
  error_seen_ = error_seen_ || !batch->error.ok();
  OpenBatch* const opened = batch.get();
  ring_.push_back(std::move(batch));
  if (opened->remaining_rows == 0) FilledLocked(opened);
}

// All rows of the batch have landed.
void Executor::FilledLocked(OpenBatch* batch) {
  const bool to_do = !parts_.batch_ops.empty() || !batch->tolerable.empty();
  if (to_do && batch->error.ok()) {
    filled_.push_back(batch);
  } else {
    ReadyLocked(batch);
  }
}

void Executor::ReadyLocked(OpenBatch* batch) {
  batch->ready = true;
  ++ready_batches_;
  items_are_short_ = ItemsAreShort(batch->data->layout->slab_bytes);
  AdaptLocked();
  if (batch != ring_.front().get()) return;
  // Where batches take less time than a wake-up, several of them share one: the worker that is here
  // tells the consumer soon.
  if (wait_begins_ >= 0 && items_are_short_) {
    wake_due_ = true;
  } else {
    consumer_to_call_ = true;
  }
}

// What takes the place of damaged rows, then the ops over the whole.
void Executor::FinishBatch(WorkItem& item) {
  OpenBatch* const batch = item.batch;
  absl::Status status;
  if (!batch->tolerable.empty()) {
    NoteDamage(*batch);
    if (parts_.plan.damage.policy == DamageSpec::Policy::kReplace) {
      if (batch->candidates < kMaxCandidates) return TryCandidates(item);
      status = OriginalError(*batch);
    } else if (parts_.plan.damage.policy == DamageSpec::Policy::kSkip) {
      SkipRows(batch->lanes, *batch->data);
    } else {
      MaskRows(*batch->data);
    }
  }
  if (status.ok()) status = ApplyBatchOps(*batch->data);
  Locked lock(*this);
  error_seen_ = error_seen_ || !status.ok();
  batch->error = std::move(status);
  ReadyLocked(batch);
}

// Writes down who is damaged, when the batch is filled for the first time.
void Executor::NoteDamage(OpenBatch& batch) {
  BatchData& data = *batch.data;
  std::ranges::sort(batch.tolerable, {}, &BadRow::row);
  if (!data.damaged.empty()) return;
  for (const BadRow& bad : batch.tolerable) {
    data.damaged.push_back({bad.row, data.ids()[bad.row], bad.error});
  }
}

// Of the lowest damaged row for which no candidate was good.
absl::Status Executor::OriginalError(const OpenBatch& batch) {
  const int64_t row = batch.tolerable.front().row;
  return std::ranges::find(batch.data->damaged, row, &DamagedSample::row)->error;
}

// Sends the next candidates on the way of any row; they come back through FilledLocked.
void Executor::TryCandidates(WorkItem& item) {
  OpenBatch& batch = *item.batch;
  const std::vector<BadRow> rows = std::exchange(batch.tolerable, {});
  const uint64_t count =
      parts_.selection != nullptr ? parts_.selection->num_kept() : parts_.num_records();
  std::vector<RunWork*> runs;
  for (const BadRow& bad : rows) {
    const DamagedSample& damaged =
        *std::ranges::find(batch.data->damaged, bad.row, &DamagedSample::row);
    RunWork* const run = runs.emplace_back(TakeRun(item));
    run->batch = &batch;
    run->first_row = bad.row;
    run->position = batch.first_position + static_cast<uint64_t>(bad.row);
    SampleId& id = batch.data->ids()[bad.row];
    id = Candidate(parts_.plan.seed, damaged, run->position, batch.candidates, count,
                   parts_.selection.get());
    LocateRun(*parts_.source, parts_.zip.get(), {&id, 1}, 1, *run);
  }
  ++batch.candidates;
  std::vector<RunWork*> admitted;
  {
    Locked lock(*this);
    batch.remaining_rows += static_cast<int64_t>(runs.size());
    admitted = AdmitLocked(rows_, runs);
    WakeWorkersLocked();
  }
  for (RunWork* run : admitted) Submit(run);
}

absl::Status Executor::ApplyBatchOps(const BatchData& data) const {
  const std::vector<TensorView> tensors = TensorsOf(data);
  const auto rows = static_cast<size_t>(data.layout->num_rows);
  absl::Status status;
  for (size_t i = 0; i < parts_.batch_ops.size() && status.ok(); ++i) {
    BatchView view;
    view.index = data.index;
    view.epoch = data.epoch;
    view.first_global_row = data.first_global_row;
    view.num_global_valid_rows = data.num_global_valid_rows;
    view.valid = {data.valid(), rows};
    view.ids = {data.ids(), rows};
    view.names = data.layout->names;
    view.tensors = tensors;
    view.seed = parts_.plan.seed;
    const std::string& stage = parts_.plan.batch_ops[i].stage;
    view.stage_key = HashName(stage);
    status = Annotate(ApplyCaught(*parts_.batch_ops[i], view),
                      ToStd(absl::StrCat("stage \"", stage, "\": batch ", data.index)));
  }
  return status;
}

}  // namespace millrace::pipeline
