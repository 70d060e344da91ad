#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/cut/lane_settler.h"
#include "pipeline/order/order.h"

// How rows of lanes become batches.

namespace millrace::pipeline {

void LaneSettler::Advance() {
  if (lanes_to_reopen_ > 0) return;
  while (!ended_ && closed_.size() < 2 && FillOpenBatch()) {
  }
}

// Returns false when the batch needs more of some lane.
bool LaneSettler::FillOpenBatch() {
  bool waits = false;
  bool any_rows = false;
  for (BatchLane& lane : lanes_) {
    waits = !FillLane(lane) || waits;
    any_rows = any_rows || lane.num_rows > 0;
    const bool is_short = lane.done && lane.num_rows < (is_bucket() ? 1 : RowsOfLane(0));
    if (is_short && plan_.batch.drop_remainder) {
      Apply(counter_.OnPassEnd());
      return true;
    }
  }
  if (waits) return false;
  if (any_rows) {
    CloseBatch();
  } else {
    Apply(counter_.OnPassEnd());
  }
  return true;
}

// Pulls rows until the lane has its rows of the open batch, or its pass has ended.
bool LaneSettler::FillLane(BatchLane& lane) {
  if (is_bucket()) return FillFromBuckets(lane);
  if (options_.counts && !lane.own) {
    CountLane(lane);
    return true;
  }
  const uint64_t rows = RowsOfLane(0);
  LaneRow row;
  while (!lane.done && lane.num_rows < rows) {
    switch (lane.lane.Next(row)) {
      case Lane::Outcome::kNeedsMore:
        return false;
      case Lane::Outcome::kEnd:
        lane.done = true;
        break;
      case Lane::Outcome::kRow:
        if (lane.num_rows++ == 0) lane.first_epoch = row.origin.id.epoch;
        if (lane.own) {
          lane.rows.Append(std::move(row), lane.lane.extents());
        } else if (options_.grows) {
          dropped_.push_back(row.origin.id.record);
        }
        break;
    }
  }
  return true;
}

void LaneSettler::CountLane(BatchLane& lane) {
  if (lane.done || lane.num_rows > 0) return;
  lane.first_epoch.reset();
  lane.first_position = lane.lane.used_position();
  lane.num_rows = lane.lane.Count(RowsOfLane(0));
  lane.done = lane.num_rows < RowsOfLane(0);
}

// The epoch of a lane's first row in the open batch. REQUIRES: the lane has a row there.
uint64_t LaneSettler::FirstEpoch(uint64_t index) {
  BatchLane& lane = At(index);
  if (!lane.first_epoch.has_value()) {
    lane.first_epoch = options_.epoch_of(index, lane.first_position);
  }
  return *lane.first_epoch;
}

bool LaneSettler::FillFromBuckets(BatchLane& lane) {
  LaneRow row;
  while (!lane.done && lane.num_rows == 0) {
    switch (lane.lane.Next(row)) {
      case Lane::Outcome::kNeedsMore:
        return false;
      case Lane::Outcome::kEnd: {
        const auto open = std::ranges::find_if(
            lane.buckets, [](const RowBuffer& bucket) { return bucket.size() > 0; });
        lane.done = plan_.batch.drop_remainder || open == lane.buckets.end();
        if (!lane.done) CloseBucket(lane, static_cast<size_t>(open - lane.buckets.begin()));
        break;
      }
      case Lane::Outcome::kRow: {
        const int64_t* extents = lane.lane.extents();
        const size_t bucket = BucketOf(row, extents);
        lane.buckets[bucket].Append(std::move(row), extents);
        if (lane.buckets[bucket].size() == RowsOfLane(bucket)) CloseBucket(lane, bucket);
        break;
      }
    }
  }
  return true;
}

size_t LaneSettler::BucketOf(LaneRow& row, const int64_t* extents) const {
  const std::vector<uint64_t>& boundaries = plan_.batch.boundaries;
  if (!row.error.ok()) return 0;
  const int64_t told = length_extent_.has_value() ? extents[*length_extent_] : fixed_length_;
  const int64_t length = std::max<int64_t>(told, 0);  // the value of a key may be negative
  const auto bucket = static_cast<size_t>(
      std::ranges::upper_bound(boundaries, static_cast<uint64_t>(length)) - boundaries.begin());
  if (plan_.batch.pad_to_boundary && bucket == boundaries.size() && bucket > 0) {
    row.error = absl::InvalidArgumentError(absl::StrCat(
        "stage \"", plan_.batch.stage, "\": field \"", plan_.batch.length_field,
        plan_.batch.length_is_value ? "\" is " : "\" has length ", length,
        ", and pad_to_bucket_boundary takes less than the last boundary, ", boundaries.back()));
    RecordError error;
    error.reason = RecordErrorReason::kValue;
    SetRecordError(row.error, error);
  }
  return std::min(bucket, plan_.batch.bucket_sizes.size() - 1);
}

void LaneSettler::CloseBucket(BatchLane& lane, size_t bucket) {
  lane.bucket = bucket;
  lane.rows.Clear();
  std::swap(lane.rows, lane.buckets[bucket]);
  lane.num_rows = lane.rows.size();
  lane.first_epoch = lane.rows.row(0).origin.id.epoch;
  if (lane.own) return;
  for (size_t i = 0; options_.grows && i < lane.rows.size(); ++i) {
    dropped_.push_back(lane.rows.row(i).origin.id.record);
  }
  lane.rows.Clear();
}

void LaneSettler::CloseBatch() {
  std::optional<ClosedBatch> batch;
  if (counter_.NextIsDelivered()) {
    batch = Assemble();
    ++next_index_;
  }
  if (options_.grows) DropBeside(batch.has_value() ? OwnSlots() : Slots());
  ClearOpenBatch();
  Apply(counter_.OnBatch());
  if (!batch.has_value()) return;
  batch->state = WriteState();
  closed_.push_back(*std::move(batch));
}

ClosedBatch LaneSettler::Assemble() {
  ClosedBatch batch;
  batch.index = next_index_;
  batch.pass = pass_;
  const Slots own = OwnSlots();
  batch.num_slots = own.most;
  batch.first_global_row = own.first;
  if (!all_lanes_) batch.num_global_valid_rows = static_cast<int64_t>(plan_.batch.size);
  for (const BatchLane& lane : lanes_) {
    if (all_lanes_) batch.num_global_valid_rows += static_cast<int64_t>(lane.num_rows);
  }
  for (uint64_t index = settled_.first; index < settled_.end; ++index) {
    if (At(index).num_rows == 0) continue;
    batch.epoch = FirstEpoch(index);
    break;
  }
  batch.pad_to = PadTo();
  batch.rows.reserve(static_cast<size_t>(own.end - own.first));
  int64_t slot = SlotsBefore(own_.first) - own.first;
  for (uint64_t index = own_.first; index < own_.end; ++index) {
    AppendRows(index, slot, own.end - own.first, batch);
    slot += SlotsOf(At(index));
  }
  return batch;
}

// Appends the rows of a lane that lie in this rank's `num_slots` slots, where the lane's first row
// would have slot `slot` of them; below 0: the first rows are other ranks'.
void LaneSettler::AppendRows(uint64_t index, int64_t slot, int64_t num_slots,
                             ClosedBatch& batch) const {
  const RowBuffer& rows = At(index).rows;
  const auto size = static_cast<int64_t>(rows.size());
  const int64_t first = std::clamp<int64_t>(-slot, 0, size);
  const int64_t end = std::clamp(num_slots - slot, first, size);
  for (int64_t i = first; i < end; ++i) {
    const LaneRow& row = rows.row(static_cast<size_t>(i));
    ClosedBatch::Row placed{row.origin, slot + i, static_cast<uint32_t>(index), -1};
    if (!row.error.ok()) {
      placed.error = static_cast<int32_t>(batch.errors.size());
      batch.errors.push_back(row.error);
    }
    batch.rows.push_back(placed);
  }
  batch.extents.insert(batch.extents.end(), rows.extents(static_cast<size_t>(first)),
                       rows.extents(static_cast<size_t>(end)));
}

// This rank's part of the open batch.
LaneSettler::Slots LaneSettler::OwnSlots() const {
  if (by_rows_) {
    const auto slots = static_cast<uint64_t>(SlotsBefore(options_.num_lanes));
    const RankSlice slice = SliceOfRank(slots, options_.rank, options_.world);
    return {.first = static_cast<int64_t>(slice.first_row),
            .end = static_cast<int64_t>(slice.first_row + slice.num_rows),
            .most = static_cast<int64_t>(slice.padded_rows)};
  }
  Slots own{.first = SlotsBefore(own_.first), .end = SlotsBefore(own_.end), .most = 1};
  if (!is_bucket()) {
    const auto ranks = static_cast<uint64_t>(options_.world);
    own.most = SlotsBefore((options_.num_lanes + ranks - 1) / ranks);
    return own;
  }
  for (int rank = 0; rank < options_.world; ++rank) {
    const Range range = LanesOfRank(rank);
    int64_t slots = 0;
    for (uint64_t lane = range.first; lane < range.end; ++lane) slots += SlotsOf(At(lane));
    own.most = std::max(own.most, slots);
  }
  return own;
}

// The slots of all lanes in front of `lane` in the open batch.
int64_t LaneSettler::SlotsBefore(uint64_t lane) const {
  if (!is_bucket()) return static_cast<int64_t>(lane * RowsOfLane(0));
  int64_t slots = 0;
  for (uint64_t before = 0; before < lane; ++before) slots += SlotsOf(At(before));
  return slots;
}

// Rows of the batch that are the lane's, empty ones included.
int64_t LaneSettler::SlotsOf(const BatchLane& lane) const {
  if (!is_bucket()) return static_cast<int64_t>(RowsOfLane(0));
  return lane.num_rows == 0 ? 0 : static_cast<int64_t>(RowsOfLane(lane.bucket));
}

// The first extent to which rows of the open batch are padded; -1: as its rows say.
int64_t LaneSettler::PadTo() const {
  if (!is_bucket() || !plan_.batch.pad_to_boundary || plan_.batch.boundaries.empty()) return -1;
  size_t widest = 0;
  for (const BatchLane& lane : lanes_) {
    if (lane.num_rows > 0) widest = std::max(widest, lane.bucket);
  }
  widest = std::min(widest, plan_.batch.boundaries.size() - 1);
  return static_cast<int64_t>(plan_.batch.boundaries[widest]) - 1;
}

// Gives back the rows of the open batch that do not lie in `slots`.
void LaneSettler::DropBeside(const Slots& slots) {
  int64_t slot = SlotsBefore(own_.first);
  for (uint64_t index = own_.first; index < own_.end; ++index) {
    const BatchLane& lane = At(index);
    for (size_t i = 0; i < lane.rows.size(); ++i) {
      const int64_t at = slot + static_cast<int64_t>(i);
      if (at >= slots.first && at < slots.end) continue;
      dropped_.push_back(lane.rows.row(i).origin.id.record);
    }
    slot += SlotsOf(lane);
  }
}

void LaneSettler::ClearOpenBatch() {
  for (BatchLane& lane : lanes_) {
    lane.done = false;
    lane.num_rows = 0;
    lane.rows.Clear();
  }
}

void LaneSettler::Apply(BatchCounter::After after) {
  if (after == BatchCounter::After::kGoOn) return;
  ClearOpenBatch();
  ended_ = after == BatchCounter::After::kEnd;
  if (!ended_) ++pass_;
  for (BatchLane& lane : lanes_) {
    for (RowBuffer& bucket : lane.buckets) bucket.Clear();
    if (ended_) {
      lane.lane.Finish();
    } else {
      lane.lane.BeginPass(pass_);
    }
  }
}

}  // namespace millrace::pipeline
