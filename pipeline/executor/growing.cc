#include <algorithm>

#include "pipeline/executor/executor.h"

// A source that grows while it is read. Batches and positions of lanes become known as records
// come, and the stream's end when the source's does; every record is given back once, by whoever
// finds that no row is left that needs it:
//   - no row is made of it, by the order (LeftOut), by pass 1, or since its lane is done;
//   - all its rows were dropped behind pass 1, or are other ranks' (Settler::TakeDropped);
//   - the last batch with one of its rows is delivered.

namespace millrace::pipeline {

bool Executor::MayGrowLocked() const {
  return parts_.growing != nullptr && !final_order_.has_value();
}

const BatchOrder& Executor::OrderLocked() const {
  return final_order_.has_value() ? *final_order_ : parts_.order;
}

void Executor::NoticeGrowthLocked() {
  if (!MayGrowLocked() || stopped_) return;
  const bool ended = parts_.growing->ended();  // before the count, which then is final
  const uint64_t records = parts_.growing->available();
  if (ended) return NoticeEndLocked(records);
  if (records == known_records_) return;
  known_records_ = records;
  known_elements_ = ElementsKnown(parts_.plan.order.steps, records);
  parts_.growing->Release(left_out_->Advance(records));
  if (examiner_ != nullptr) board_.SetEnds(LaneSizes(parts_.plan, known_elements_));
}

// From the end on, how many records there are is known.
void Executor::NoticeEndLocked(uint64_t records) {
  OrderSource source;
  source.num_records = records;
  absl::StatusOr<BatchOrder> order = BatchOrder::Make(parts_.plan, {&source, 1});
  if (!order.ok()) return StopLocked(order.status());
  final_order_ = *std::move(order);
  left_out_.reset();
  known_elements_ = final_order_->records().size();
  if (examiner_ == nullptr) return;
  board_.SetEnds(LaneSizes(parts_.plan, known_elements_));
  end_is_due_ = true;
}

// Without a cut: whether the rows of the next batch are known.
bool Executor::RecordsAreHereLocked() const {
  if (!MayGrowLocked()) return true;
  const BatchPlace place = parts_.order.Place(next_batch_);
  const uint64_t elements = place.first_position + place.valid_rows;
  if (elements <= known_elements_) return true;
  if (ring_.empty()) parts_.growing->Want(RecordsNeeded(parts_.plan.order.steps, elements));
  return false;
}

// With a cut, how many records the oldest batch lacks is not known: when nothing else can be done,
// one more position is asked for.
void Executor::WantForPass1Locked() {
  if (examiner_ == nullptr || !MayGrowLocked() || stopped_ || settled_) return;
  const bool works = planning_ || settling_ || more_closed_ || opening_ || !ring_.empty() ||
                     !closed_.empty() || board_.num_blocks() > 0 || board_.MayClaim(1);
  if (works) return;
  const auto position = board_.FirstMissing(parts_.plan.lanes, LaneBlock(parts_.plan));
  if (!position.has_value()) return;
  parts_.growing->Want(RecordsNeeded(parts_.plan.order.steps, *position + 1));
}

// Positions of a lane that is done are passed over.
void Executor::Discard(std::span<const SampleId> ids) {
  std::vector<uint64_t> records;
  for (const SampleId& id : ids) records.push_back(id.record);
  parts_.growing->Release(records);
  Locked lock(*this);
  planning_ = false;
  WakeWorkersLocked();
}

// Says how many rows pass 1 made of each record. What it found is in the order of the run.
void Executor::TellUses(const RunWork& run, const Examined& found) const {
  auto row = found.rows.begin();
  for (int64_t i = 0; i < run.num_rows(); ++i) {
    uint64_t uses = 0;
    for (; row != found.rows.end() && row->origin.position == run.position_of(i); ++row) ++uses;
    if (uses != 1) parts_.growing->SetUses(run.ids[static_cast<size_t>(i)].record, uses);
  }
}

void Executor::ReleaseRows(const BatchData& batch) const {
  std::vector<uint64_t> records;
  for (int64_t row = 0; row < batch.layout->num_rows; ++row) {
    if (batch.valid()[row] != 0) records.push_back(batch.ids()[row].record);
  }
  for (const DamagedSample& one : batch.damaged) records.push_back(one.id.record);
  parts_.growing->Release(records);
}

// An error behind the last record counts where the stream came so far.
absl::Status Executor::EndStatusLocked() const {
  if (parts_.growing == nullptr || !final_order_.has_value()) return absl::OkStatus();
  const bool all_taken = final_order_->records().size() == parts_.order.records().size();
  const bool came_so_far = examiner_ == nullptr || reached_end_;
  return all_taken || !came_so_far ? absl::OkStatus() : parts_.growing->status();
}

}  // namespace millrace::pipeline
