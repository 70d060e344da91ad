#include "pipeline/executor/batch_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/batch/damage.h"
#include "pipeline/batch/row_store.h"
#include "pipeline/order/resume_token.h"
#include "pipeline/stages/apply_caught.h"

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

// Writes down which samples are damaged, when the batch is filled for the first time.
void NoteDamage(OpenBatch& batch) {
  BatchData& data = *batch.data;
  std::ranges::sort(batch.tolerable, {}, &BadRow::row);
  if (!data.damaged.empty()) return;
  for (const BadRow& bad : batch.tolerable) {
    data.damaged.push_back({bad.row, data.ids()[bad.row], bad.error});
  }
}

// The error of the lowest damaged row for which no candidate was good.
absl::Status OriginalError(const OpenBatch& batch) {
  const int64_t row = batch.tolerable.front().row;
  return std::ranges::find(batch.data->damaged, row, &DamagedSample::row)->error;
}

}  // namespace

BatchMaker::BatchMaker(const ExecutorParts& parts, const RunProcessor& processor,
                       std::shared_ptr<SlabPool> pool, std::shared_ptr<MemoryBudget> budget)
    : parts_(parts), processor_(processor), pool_(std::move(pool)), budget_(std::move(budget)) {}

std::string BatchMaker::TokenBehind(uint64_t batch, std::string state) const {
  return ResumeToken{parts_.plan.semantics_version, parts_.plan.plan_fingerprint,
                     parts_.data_fingerprint, batch + 1, std::move(state)}
      .ToString();
}

// False, and then the batch is an error, when there is no memory.
bool BatchMaker::TakeSlab(OpenBatch& batch) const {
  absl::StatusOr<std::byte*> slab = pool_->Take(batch.data->layout->slab_bytes);
  if (!slab.ok()) {
    batch.error = slab.status();
    return false;
  }
  batch.data->slab = *slab;
  return true;
}

std::unique_ptr<OpenBatch> BatchMaker::Open(OpenItem& item) const {
  std::unique_ptr<OpenBatch> batch = std::move(item.blank);
  if (batch == nullptr) batch = std::make_unique<OpenBatch>();
  *batch = OpenBatch();  // not while a consumer waits for its delivery
  if (auto* const closed = std::get_if<std::unique_ptr<ClosedWork>>(&item.batch)) {
    OpenClosed(**closed, *batch);
    closed->reset();  // not under the executor's mutex
  } else {
    OpenNext(std::get<NextBatch>(item.batch), *batch);
  }
  batch->data->reserved_bytes = std::exchange(item.reserved_bytes, 0);
  return batch;
}

void BatchMaker::OpenNext(const NextBatch& next, OpenBatch& batch) const {
  const uint64_t index = next.index;
  batch.order = next.order;
  batch.place = next.order->Place(index);
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

void BatchMaker::OpenClosed(ClosedWork& work, OpenBatch& batch) const {
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

// Writes which samples the rows are; rows that pass 1 found bad are not worked on.
void BatchMaker::PlaceClosedRows(ClosedBatch& closed, OpenBatch& batch) const {
  BatchData& data = *batch.data;
  std::memset(data.valid(), 0, static_cast<size_t>(data.layout->num_rows));
  for (const ClosedBatch::Row& row : closed.rows) {
    data.valid()[row.slot] = 1;
    data.ids()[row.slot] = row.origin.id;
    if (row.error < 0) continue;
    const absl::Status& error = closed.errors[static_cast<size_t>(row.error)];
    batch.AddBadRow({row.slot, processor_.Tolerates(error),
                     processor_.Locate(
                         error, LocateSample(*parts_.source, parts_.sample_parts(), row.origin.id),
                         batch.first_position + static_cast<uint64_t>(row.slot))});
  }
  if (parts_.plan.damage.policy == DamageSpec::Policy::kSkip) {
    batch.lanes.resize(static_cast<size_t>(data.layout->num_rows), 0);
    // Lanes that were dealt for the world alone are no groups.
    const bool by_lanes = parts_.plan.token_lanes == 0;
    for (const ClosedBatch::Row& row : closed.rows) {
      batch.lanes[static_cast<size_t>(row.slot)] = by_lanes ? row.lane : 0;
    }
  }
  ClearPadding(data);
  batch.rows = std::move(closed.rows);
  if (batch.num_bad_rows > 0) {
    std::erase_if(batch.rows, [](const ClosedBatch::Row& row) { return row.error >= 0; });
  }
  batch.num_work_rows = batch.remaining_rows = static_cast<int64_t>(batch.rows.size());
}

std::optional<absl::Status> BatchMaker::Finish(OpenBatch& batch) const {
  absl::Status status;
  if (!batch.tolerable.empty()) {
    NoteDamage(batch);
    if (parts_.plan.damage.policy == DamageSpec::Policy::kReplace) {
      if (batch.candidates < kMaxCandidates) return std::nullopt;
      status = OriginalError(batch);
    } else if (parts_.plan.damage.policy == DamageSpec::Policy::kSkip) {
      SkipRows(batch.lanes, *batch.data);
    } else {
      MaskRows(*batch.data);
    }
  }
  return status.ok() ? ApplyBatchOps(*batch.data) : status;
}

absl::Status BatchMaker::ApplyBatchOps(const BatchData& data) const {
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
