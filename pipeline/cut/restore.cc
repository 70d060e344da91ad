#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/cut/lane_settler.h"
#include "pipeline/order/order.h"

// The settler's state, from which it goes on behind a batch. The open rows are named, not kept;
// pass 1 looks at them again.

namespace millrace::pipeline {
namespace {

std::pair<uint64_t, uint64_t> Key(const RowOrigin& origin) {
  return {origin.position, origin.id.sub_index};
}

// kInfinite if there is such a number.
uint64_t Sum(const std::vector<uint64_t>& numbers) {
  uint64_t sum = 0;
  for (const uint64_t number : numbers) {
    if (number == kInfinite) return kInfinite;
    sum += number;
  }
  return sum;
}

// Rows by place, to find the open ones again.
class FoundRows {
 public:
  explicit FoundRows(const Examined& found, size_t extents_per_row)
      : found_(found), extents_per_row_(extents_per_row) {
    for (size_t i = 0; i < found.rows.size(); ++i) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [&](size_t i) { return Key(found.rows[i].origin); });
  }

  // False when there is no such row, nor an error in the place of its record.
  bool Fill(RowBuffer& buffer, size_t i, int num_filters) const {
    RowOrigin origin = buffer.row(i).origin;
    const auto at = [&](size_t row) { return Key(found_.rows[row].origin); };
    auto it = std::ranges::lower_bound(order_, Key(origin), {}, at);
    if (it == order_.end() || at(*it) != Key(origin)) {
      it = std::ranges::lower_bound(order_, std::pair{origin.position, uint64_t{0}}, {}, at);
      const bool failed = it != order_.end() &&
                          found_.rows[*it].origin.position == origin.position &&
                          found_.rows[*it].error >= 0;
      if (!failed) return false;
    }
    const Examined::Row& row = found_.rows[*it];
    origin.id.epoch = row.origin.id.epoch;
    origin.id.record = row.origin.id.record;
    LaneRow lane_row{origin, row.passed_filters, absl::OkStatus()};
    if (row.error >= 0) {
      lane_row.passed_filters = num_filters;
      lane_row.error = found_.errors[static_cast<size_t>(row.error)];
    }
    buffer.Replace(i, std::move(lane_row), found_.extents.data() + *it * extents_per_row_);
    return true;
  }

 private:
  const Examined& found_;
  const size_t extents_per_row_;
  std::vector<size_t> order_;
};

}  // namespace

// The meaning of a state's numbers depends on these.
uint64_t LaneSettler::ShapeHash() const {
  uint64_t hash = 0;
  const auto add = [&hash](uint64_t word) { hash = Mix64(hash * 31 + word + 1); };
  const uint64_t lanes = options_.counts ? options_.token_lanes : options_.num_lanes;
  add(lanes);
  add(options_.seed);
  const uint64_t elements = Sum(options_.lane_sizes);
  for (uint64_t lane = 0; lane < lanes; ++lane) {
    add(options_.counts ? TokenLaneSize(elements, lane) : options_.lane_sizes[lane]);
  }
  add(static_cast<uint64_t>(plan_.batch.kind));
  add(plan_.batch.size);
  add(plan_.batch.drop_remainder ? 1 : 0);
  for (const uint64_t size : plan_.batch.bucket_sizes) add(size);
  for (const uint64_t boundary : plan_.batch.boundaries) add(boundary);
  add(static_cast<uint64_t>(lane_plan_.num_filters));
  add(lane_plan_.splits_records ? 1 : 0);
  for (const LanePlan::Step& step : lane_plan_.steps) {
    add(static_cast<uint64_t>(step.kind));
    add(static_cast<uint64_t>(step.after_filters));
    add(step.count);
    add(step.key);
  }
  for (const OrderStep& step : plan_.batch_order) {
    add(static_cast<uint64_t>(step.kind));
    add(step.count);
  }
  return hash & 0xFFFFFFFF;
}

// The elements of a token's lane, of so many first ones of a pass. REQUIRES: options_.counts.
uint64_t LaneSettler::TokenLaneSize(uint64_t elements, uint64_t lane) const {
  const uint64_t block = plan_.batch.size / options_.token_lanes;
  return LaneSize(elements, lane, options_.token_lanes, block);
}

// The rows of the batches so far are the first elements of the pass.
void LaneSettler::WriteCounts() {
  uint64_t used = 0;
  for (const BatchLane& lane : lanes_) used += lane.lane.num_used();
  for (uint64_t lane = 0; lane < options_.token_lanes; ++lane) {
    writer_.Number(TokenLaneSize(used, lane));
    writer_.Number(0);
  }
}

void LaneSettler::ReadCounts(StateReader& reader) {
  const uint64_t elements = Sum(options_.lane_sizes);
  std::vector<uint64_t> counts;
  for (uint64_t lane = 0; lane < options_.token_lanes; ++lane) {
    counts.push_back(reader.NumberUpTo(std::min(TokenLaneSize(elements, lane), kMaxCount)));
    reader.NumberUpTo(0);
  }
  const uint64_t used = Sum(counts);
  for (uint64_t lane = 0; lane < counts.size(); ++lane) {
    if (counts[lane] != TokenLaneSize(used, lane)) return reader.Fail();
  }
  const uint64_t rows = RowsOfLane(0);
  for (uint64_t lane = 0; lane < options_.num_lanes; ++lane) {
    At(lane).lane.BeginWithin(pass_, LaneSize(used, lane, options_.num_lanes, rows));
  }
}

std::string LaneSettler::WriteState() {
  writer_.Number(ShapeHash());
  writer_.Number(ended_ ? 1 : 0);
  writer_.Number(next_index_);
  writer_.Number(pass_);
  counter_.Write(writer_);
  if (options_.counts) {
    writer_.Number(0);
    writer_.Number(options_.token_lanes);
    if (!ended_) WriteCounts();
    return writer_.Finish();
  }
  writer_.Number(settled_.first);
  writer_.Number(settled_.end - settled_.first);
  for (const BatchLane& lane : lanes_) {
    if (ended_) break;
    lane.lane.Write(writer_);
    for (const RowBuffer& bucket : lane.buckets) bucket.Write(writer_, lane.lane.used_position());
  }
  return writer_.Finish();
}

absl::Status LaneSettler::Restore(std::string_view state) {
  MILLRACE_ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(state));
  if (reader.Number() != ShapeHash()) {
    return absl::InvalidArgumentError("the state of the cut is of another plan or other data");
  }
  MILLRACE_RETURN_IF_ERROR(ReadState(reader));
  if (!reader.at_end()) {
    return absl::InvalidArgumentError("the state of the cut says what cannot be");
  }
  for (BatchLane& lane : lanes_) {
    lane.open_rows = FindOpenRows(lane);
    lanes_to_reopen_ += lane.open_rows.empty() ? 0 : 1;
  }
  return absl::OkStatus();
}

absl::Status LaneSettler::ReadState(StateReader& reader) {
  ended_ = reader.NumberUpTo(1) != 0;
  next_index_ = reader.NumberUpTo(kMaxCount);
  pass_ = reader.Number();
  for (const uint64_t size : options_.lane_sizes) {
    const uint64_t passes = size == kInfinite ? 0 : kMaxCount / std::max<uint64_t>(size, 1) - 1;
    if (pass_ > passes) reader.Fail();
  }
  counter_.Read(reader);
  const uint64_t lanes = options_.counts ? options_.token_lanes : options_.num_lanes;
  const uint64_t first = reader.NumberUpTo(lanes);
  const uint64_t end = first + reader.NumberUpTo(lanes - first);
  if (!reader.ok()) return absl::OkStatus();  // at_end() says so
  if (ended_) {
    for (BatchLane& lane : lanes_) lane.lane.Finish();
    return absl::OkStatus();
  }
  if (options_.counts && end - first == lanes) {
    ReadCounts(reader);
    return absl::OkStatus();
  }
  if (options_.counts || first > settled_.first || end < settled_.end) {
    return absl::FailedPreconditionError(
        absl::StrCat("the state has lanes [", first, ", ", end, ") and this rank needs [",
                     settled_.first, ", ", settled_.end,
                     "): behind a cut of an input without end each rank knows its own lanes "
                     "only; resume with this rank's own token and at the same world"));
  }
  for (uint64_t lane = first; lane < end && reader.ok(); ++lane) {
    if (lane >= settled_.first && lane < settled_.end) {
      ReadLane(reader, At(lane));
    } else {
      BatchLane other = MakeLane(lane);
      ReadLane(reader, other);
    }
  }
  return absl::OkStatus();
}

void LaneSettler::ReadLane(StateReader& reader, BatchLane& lane) const {
  lane.lane.Read(reader, pass_);
  for (size_t b = 0; b < lane.buckets.size(); ++b) {
    lane.buckets[b].Read(reader, lane.lane.first_position(), lane.lane.used_position(),
                         RowsOfLane(b) - 1);
  }
}

std::vector<RowBuffer*> LaneSettler::OpenBuffers(BatchLane& lane) {
  std::vector<RowBuffer*> buffers = lane.lane.OpenBuffers();
  for (RowBuffer& bucket : lane.buckets) {
    if (bucket.size() > 0) buffers.push_back(&bucket);
  }
  return buffers;
}

// Each record once, ascending.
std::vector<RowOrigin> LaneSettler::FindOpenRows(BatchLane& lane) {
  std::vector<uint64_t> positions;
  for (const RowBuffer* buffer : OpenBuffers(lane)) {
    for (size_t i = 0; i < buffer->size(); ++i) positions.push_back(buffer->row(i).origin.position);
  }
  std::ranges::sort(positions);
  const auto repeated = std::ranges::unique(positions);
  positions.erase(repeated.begin(), repeated.end());
  std::vector<RowOrigin> origins;
  for (const uint64_t position : positions) origins.push_back({.id = {}, .position = position});
  return origins;
}

std::vector<RowOrigin> LaneSettler::OpenRows(uint64_t lane) const { return At(lane).open_rows; }

absl::Status LaneSettler::Reopen(uint64_t lane, const Examined& rows) {
  BatchLane& reopened = At(lane);
  if (reopened.open_rows.empty()) return absl::OkStatus();
  const FoundRows found(rows, options_.extents_per_row);
  for (RowBuffer* buffer : OpenBuffers(reopened)) {
    for (size_t i = 0; i < buffer->size(); ++i) {
      if (found.Fill(*buffer, i, lane_plan_.num_filters)) continue;
      const RowOrigin& origin = buffer->row(i).origin;
      return absl::FailedPreconditionError(absl::StrCat(
          "the resume token holds row ", origin.id.sub_index, " of position ", origin.position,
          " of lane ", lane, ", which a filter drops now: the data is not what it was"));
    }
  }
  reopened.open_rows.clear();
  --lanes_to_reopen_;
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
