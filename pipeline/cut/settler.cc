#include "pipeline/cut/settler.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/cut/lane_settler.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {

// docs/executor.md, Buffers.
static_assert(sizeof(Examined::Row) == 40 && sizeof(ClosedBatch::Row) == 48 &&
              sizeof(LaneRow) == 48);
namespace {

// Rows that lie examined in a lane before it says that it has enough: two batches' worth, and so
// many at least.
constexpr uint64_t kMinPendingRows = 64;

bool SplitsRecords(const CutPlan& cut) {
  return std::ranges::find(cut.examine, ExamineStep::Kind::kUnbatch, &ExamineStep::kind) !=
         cut.examine.end();
}

LanePlan MakeLanePlan(const PhysicalPlan& plan, const SettlerOptions& options) {
  LanePlan lanes;
  for (const SettleStep& step : plan.cut->settle) {
    lanes.steps.push_back({step.kind, step.after_filters, step.count, step.key});
  }
  lanes.num_filters = plan.cut->num_filters;
  lanes.splits_records = SplitsRecords(*plan.cut);
  lanes.extents_per_row = options.extents_per_row;
  lanes.seed = options.seed;
  lanes.num_lanes = options.num_lanes;
  lanes.grows = options.grows;
  return lanes;
}

absl::Status CheckLanes(const PhysicalPlan& plan, const SettlerOptions& options) {
  const uint64_t lanes = options.num_lanes;
  if (!plan.cut.has_value() || lanes == 0 || options.lane_sizes.size() != lanes ||
      options.rank < 0 || options.rank >= options.world) {
    return absl::InternalError("a settler without a cut, lanes or a rank");
  }
  if (static_cast<uint64_t>(options.world) > lanes && !RanksKnowBatches(plan, options.endless)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "world ", options.world, ": the plan has a cut of an input without end and ", lanes,
        " lanes: at most ", lanes, " ranks; set lanes: ", options.world,
        " (lanes are part of what the plan means: another number gives another order), or repeat "
        "behind the batch stage"));
  }
  std::vector<uint64_t> sizes = {plan.batch.size};
  if (plan.batch.kind == BatchSpec::Kind::kBucket) sizes = plan.batch.bucket_sizes;
  if (sizes.empty()) return absl::InternalError("a bucket stage without buckets");
  for (const uint64_t size : sizes) {
    if (size == 0 || size >= kMaxCount || size % lanes != 0) {
      return absl::InvalidArgumentError(absl::StrCat("stage \"", plan.batch.stage, "\": ", lanes,
                                                     " lanes do not divide a batch of ", size,
                                                     " rows"));
    }
  }
  return absl::OkStatus();
}

// Rows in shuffles and buckets (S-CUT-19). A record that is split may be any number of rows.
uint64_t MaxOpenRows(const PhysicalPlan& plan, uint64_t num_records) {
  const uint64_t most = SplitsRecords(*plan.cut) ? kInfinite : num_records;
  uint64_t rows = 0;
  for (const SettleStep& step : plan.cut->settle) {
    if (step.kind == SettleStep::Kind::kShuffle) {
      rows += std::min(most, std::max(step.count, plan.lanes));
    }
  }
  if (plan.batch.kind != BatchSpec::Kind::kBucket) return rows;
  return rows + std::min(most, std::accumulate(plan.batch.bucket_sizes.begin(),
                                               plan.batch.bucket_sizes.end(), uint64_t{0}));
}

}  // namespace

uint64_t SettlerBytes(const PhysicalPlan& plan, size_t extents_per_row, uint64_t num_records) {
  // In the states of two closed batches and of the one that was delivered last (S-STATE-13).
  constexpr uint64_t kStateBytes = 3 * 12;
  // Two batches' rows are examined and not used; one is open, and two are closed.
  constexpr uint64_t kRowsOfBatch = 2 + 1 + 2;
  const uint64_t row_bytes = sizeof(LaneRow) + extents_per_row * sizeof(int64_t);
  return MaxOpenRows(plan, num_records) * (row_bytes + kStateBytes) +
         plan.batch.size * kRowsOfBatch * row_bytes;
}

absl::StatusOr<std::unique_ptr<Settler>> Settler::Make(const PhysicalPlan& plan,
                                                       SettlerOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckLanes(plan, options));
  MILLRACE_ASSIGN_OR_RETURN(BatchCounter counter, BatchCounter::Make(plan.batch_order));
  auto settler = std::make_unique<LaneSettler>(plan, std::move(options), std::move(counter));
  MILLRACE_RETURN_IF_ERROR(settler->Init());
  return settler;
}

LaneSettler::LaneSettler(const PhysicalPlan& plan, SettlerOptions options, BatchCounter counter)
    : plan_(plan),
      options_(std::move(options)),
      lane_plan_(MakeLanePlan(plan_, options_)),
      counter_(std::move(counter)) {}

absl::Status LaneSettler::Init() {
  MILLRACE_RETURN_IF_ERROR(CheckRepeats());
  const Range all = {0, options_.num_lanes};
  by_rows_ = RanksDivideRows(plan_, options_.world, options_.endless);
  own_ = by_rows_ ? all : LanesOfRank(options_.rank);
  all_lanes_ = options_.counts || RanksKnowBatches(plan_, options_.endless);
  settled_ = all_lanes_ ? all : own_;
  FindLength();
  const size_t num_buckets = is_bucket() ? plan_.batch.bucket_sizes.size() : 1;
  for (size_t b = 0; b < num_buckets; ++b) {
    max_pending_rows_ = std::max({max_pending_rows_, kMinPendingRows, 2 * RowsOfLane(b)});
  }
  for (uint64_t lane = settled_.first; lane < settled_.end; ++lane) {
    lanes_.push_back(MakeLane(lane));
  }
  Apply(counter_.Begin());
  return absl::OkStatus();
}

// Positions of a lane without end cannot begin again.
absl::Status LaneSettler::CheckRepeats() const {
  const bool infinite =
      std::ranges::find(options_.lane_sizes, kInfinite) != options_.lane_sizes.end();
  bool ends = HasTake(*plan_.cut);
  for (const OrderStep& step : plan_.batch_order) {
    if (infinite && ends && step.kind == OrderStep::Kind::kRepeat && step.count != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stage \"", step.stage,
          "\": repeats batches of an input without end that a take stopped; behind a filter, "
          "unbatch or bucket_by_length only a finite input can begin again"));
    }
    ends = ends || step.kind == OrderStep::Kind::kTake;
  }
  return absl::OkStatus();
}

LaneSettler::Range LaneSettler::LanesOfRank(int rank) const {
  const RankSlice slice = SliceOfRank(options_.num_lanes, rank, options_.world);
  return {slice.first_row, slice.first_row + slice.num_rows};
}

uint64_t LaneSettler::RowsOfLane(size_t bucket) const {
  return (is_bucket() ? plan_.batch.bucket_sizes[bucket] : plan_.batch.size) / options_.num_lanes;
}

LaneSettler::BatchLane LaneSettler::MakeLane(uint64_t lane) const {
  const RowBuffer empty(options_.extents_per_row);
  BatchLane made{.lane = Lane(lane_plan_, lane, options_.lane_sizes[lane]),
                 .own = lane >= own_.first && lane < own_.end,
                 .open_rows = {},
                 .rows = empty,
                 .buckets = {}};
  if (is_bucket()) made.buckets.resize(plan_.batch.bucket_sizes.size(), empty);
  made.lane.BeginPass(0);
  return made;
}

void LaneSettler::FindLength() {
  if (plan_.batch.length_is_value) {
    length_extent_ = options_.extents_per_row - 1;  // behind all extents
    return;
  }
  size_t extent = 0;
  for (const std::string& name : plan_.cut->extents_of) {
    if (name == plan_.batch.length_field) {
      length_extent_ = extent;
      return;
    }
    const Field* field = plan_.batch_schema.Find(name);
    extent += field == nullptr ? 0 : static_cast<size_t>(field->shape.rank());
  }
  const Field* field = plan_.batch_schema.Find(plan_.batch.length_field);
  if (field != nullptr && field->shape.rank() > 0) fixed_length_ = field->shape[0];
}

std::vector<uint64_t> LaneSettler::lanes() const {
  const Range looked_at = options_.counts ? own_ : settled_;
  std::vector<uint64_t> lanes;
  for (uint64_t lane = looked_at.first; lane < looked_at.end; ++lane) lanes.push_back(lane);
  return lanes;
}

uint64_t LaneSettler::NextPosition(uint64_t lane) const { return At(lane).lane.next_position(); }

bool LaneSettler::WantsMore(uint64_t lane) const {
  return !ended_ && At(lane).lane.WantsMore(max_pending_rows_, counter_.MayPassAgain());
}

void LaneSettler::Settle(Examined block) {
  BatchLane& lane = At(block.lane);
  assert(lane.open_rows.empty());
  if (ended_) return;
  lane.lane.Add(std::move(block));
  Advance();
}

std::optional<ClosedBatch> LaneSettler::Take() {
  Advance();
  if (closed_.empty()) return std::nullopt;
  std::optional<uint64_t> next_epoch;
  if (closed_.size() > 1) {
    next_epoch = closed_[1].epoch;
  } else if (!ended_) {
    next_epoch = OpenEpoch();
    if (!next_epoch.has_value()) return std::nullopt;
  }
  ClosedBatch batch = std::move(closed_.front());
  closed_.pop_front();
  batch.ends_epoch = next_epoch != batch.epoch;
  Advance();
  return batch;
}

void LaneSettler::EndInput(const std::vector<uint64_t>& lane_sizes) {
  for (uint64_t lane = settled_.first; lane < settled_.end; ++lane) {
    At(lane).lane.EndInput(lane_sizes[lane]);
  }
}

bool LaneSettler::reached_end() const {
  return std::ranges::any_of(lanes_, [](const BatchLane& lane) { return lane.lane.reached_end(); });
}

bool LaneSettler::LaneIsDone(uint64_t lane) const {
  return options_.grows && At(lane).lane.IsDone();
}

std::vector<uint64_t> LaneSettler::TakeDropped() {
  std::vector<uint64_t> dropped = std::exchange(dropped_, {});
  for (BatchLane& lane : lanes_) lane.lane.TakeDropped(dropped);
  return dropped;
}

// The epoch of the batch that is being filled; nullopt if it is not sure to be delivered.
std::optional<uint64_t> LaneSettler::OpenEpoch() {
  if (is_bucket() || plan_.batch.drop_remainder || !counter_.NextIsDelivered()) return std::nullopt;
  for (uint64_t index = settled_.first; index < settled_.end; ++index) {
    if (At(index).num_rows > 0) return FirstEpoch(index);
    if (!At(index).done) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace millrace::pipeline
