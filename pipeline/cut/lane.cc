#include "pipeline/cut/lane.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/permutation.h"
#include "base/philox.h"
#include "pipeline/order/order.h"
#include "pipeline/order/shuffle.h"

namespace millrace::pipeline {

uint64_t PartOfLane(uint64_t count, uint64_t lane, uint64_t num_lanes) {
  using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{count} * (lane + 1) / num_lanes -
                               Wide{count} * lane / num_lanes);
}

void RowBuffer::Reserve(uint64_t rows) {
  rows_.reserve(rows);
  extents_.reserve(rows * extents_per_row_);
}

void RowBuffer::Append(LaneRow row, const int64_t* extents) {
  rows_.push_back(std::move(row));
  if (extents == nullptr) {
    extents_.resize(extents_.size() + extents_per_row_);
  } else {
    extents_.insert(extents_.end(), extents, extents + extents_per_row_);
  }
}

void RowBuffer::TakeLast(LaneRow& row, std::vector<int64_t>& extents) {
  const size_t last = size() - 1;
  extents.assign(this->extents(last), this->extents(last) + extents_per_row_);
  row = std::move(rows_.back());
  rows_.pop_back();
  extents_.resize(extents_.size() - extents_per_row_);
}

void RowBuffer::Replace(size_t i, LaneRow row, const int64_t* extents) {
  rows_[i] = std::move(row);
  std::copy_n(extents, extents_per_row_,
              extents_.begin() + static_cast<ptrdiff_t>(i * extents_per_row_));
}

void RowBuffer::Swap(size_t i, size_t j) {
  std::swap(rows_[i], rows_[j]);
  const auto begin = extents_.begin();
  std::swap_ranges(begin + static_cast<ptrdiff_t>(i * extents_per_row_),
                   begin + static_cast<ptrdiff_t>((i + 1) * extents_per_row_),
                   begin + static_cast<ptrdiff_t>(j * extents_per_row_));
}

void RowBuffer::Clear() {
  rows_.clear();
  extents_.clear();
}

void RowBuffer::Write(StateWriter& writer, uint64_t from) const {
  writer.Number(size());
  for (const LaneRow& row : rows_) {
    writer.Number(from - row.origin.position);
    writer.Number(row.origin.id.sub_index);
  }
}

void RowBuffer::Read(StateReader& reader, uint64_t first, uint64_t from, uint64_t max_rows) {
  Clear();
  const uint64_t count = reader.Count(2);
  if (count > max_rows) return reader.Fail();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    LaneRow row;
    row.origin.position = from - reader.NumberUpTo(from - first);
    row.origin.id.sub_index = reader.Number();
    Append(std::move(row), nullptr);
  }
}

Lane::Lane(const LanePlan& plan, uint64_t lane, uint64_t size)
    : plan_(&plan), lane_(lane), size_(size) {
  for (const LanePlan::Step& step : plan.steps) {
    const uint64_t limit = step.kind == SettleStep::Kind::kShuffle
                               ? std::max<uint64_t>(1, step.count / plan.num_lanes)
                               : PartOfLane(step.count, lane, plan.num_lanes);
    steps_.push_back({limit, 0, 0, false, RowBuffer(plan.extents_per_row), {}});
    if (step.kind == SettleStep::Kind::kShuffle && !plan.splits_records) {
      steps_.back().buffer.Reserve(std::min(limit, size));
    }
  }
}

void Lane::SetPass(uint64_t pass) {
  assert(size_ != kInfinite || pass == 0);
  first_ = size_ == kInfinite ? 0 : pass * size_;
  end_ = size_ == kInfinite ? kInfinite : first_ + size_;
  used_ = {first_, 0};
  ended_ = false;
  for (size_t i = 0; i < steps_.size(); ++i) {
    StepState& state = steps_[i];
    state.count = 0;
    state.draining = false;
    state.buffer.Clear();
    const uint64_t stage_key = Mix64(Mix64(plan_->seed) + plan_->steps[i].key);
    state.key = Mix64(stage_key + pass) ^ Mix64(lane_);
  }
}

void Lane::BeginPass(uint64_t pass) {
  SetPass(pass);
  DropPendingBefore(first_);
  frontier_ = std::max(frontier_, used_);
}

void Lane::BeginWithin(uint64_t pass, uint64_t used) {
  SetPass(pass);
  used_.position += used;
  frontier_ = used_;
}

uint64_t Lane::Count(uint64_t rows) {
  const uint64_t taken = std::min(rows, end_ - used_.position);
  used_.position += taken;
  frontier_ = used_;
  return taken;
}

void Lane::Finish() {
  SetPass(0);
  pending_.clear();
  pending_rows_ = 0;
  ended_ = true;
}

// Nothing comes round again.
bool Lane::has_one_pass() const { return size_ == kInfinite || plan_->grows; }

void Lane::EndInput(uint64_t size) {
  size_ = size;
  end_ = size;
}

bool Lane::IsDone() const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (plan_->steps[i].kind == SettleStep::Kind::kTake && steps_[i].count >= steps_[i].limit)
      return true;
  }
  return ended_;
}

void Lane::Drop(const RowOrigin& origin) {
  if (plan_->grows) dropped_.push_back(origin.id.record);
}

void Lane::TakeDropped(std::vector<uint64_t>& records) {
  records.insert(records.end(), dropped_.begin(), dropped_.end());
  dropped_.clear();
}

void Lane::DropPendingBefore(uint64_t position) {
  while (!pending_.empty()) {
    Pending& front = pending_.front();
    for (; front.next < front.block.rows.size(); ++front.next, --pending_rows_) {
      const RowOrigin& origin = front.block.rows[front.next].origin;
      if (origin.position >= position) return;
      Drop(origin);
    }
    pending_.pop_front();
  }
}

// The pass has no more rows. Findings that are not used yet are not needed (behind a take).
void Lane::EndPass() {
  ended_ = true;
  DropPendingBefore(end_);
  for (const StepState& state : steps_) {
    for (size_t i = 0; i < state.buffer.size(); ++i) Drop(state.buffer.row(i).origin);
  }
  if (has_one_pass()) return;
  used_ = {end_, 0};
  frontier_ = std::max(frontier_, used_);
}

bool Lane::WantsMore(uint64_t max_rows, bool may_pass_again) const {
  if (pending_rows_ >= max_rows || size_ == 0) return false;
  if (frontier_.position < end_) return !ended_;
  return may_pass_again && frontier_.position - end_ < size_;
}

void Lane::Add(Examined block) {
  assert(block.extents.size() == block.rows.size() * plan_->extents_per_row);
  if (ended_ && has_one_pass()) {
    for (const Examined::Row& row : block.rows) Drop(row.origin);
    return;
  }
  assert(block.first <= frontier_.position);
  if (block.end <= frontier_.position) return;
  Pending pending{std::move(block), 0};
  const std::vector<Examined::Row>& rows = pending.block.rows;
  while (pending.next < rows.size() && PlaceOf(rows[pending.next]) < frontier_) ++pending.next;
  frontier_ = {pending.block.end, 0};
  if (pending.next == rows.size()) return;
  pending_rows_ += rows.size() - pending.next;
  pending_.push_back(std::move(pending));
}

Lane::Outcome Lane::PullSource(LaneRow& row) {
  while (!pending_.empty() && pending_.front().next == pending_.front().block.rows.size()) {
    pending_.pop_front();  // not earlier: extents_ may have pointed there
  }
  if (pending_.empty()) {
    if (frontier_.position < end_) return Outcome::kNeedsMore;
    reached_end_ = true;
    return Outcome::kEnd;
  }
  Pending& front = pending_.front();
  const Examined::Row& next = front.block.rows[front.next];
  if (next.origin.position >= end_) return Outcome::kEnd;
  row.origin = next.origin;
  // A row that could not be looked at takes its place like a survivor, and says so there.
  row.passed_filters = next.error >= 0 ? plan_->num_filters : next.passed_filters;
  row.error =
      next.error >= 0 ? front.block.errors[static_cast<size_t>(next.error)] : absl::OkStatus();
  extents_ = front.block.extents.data() + front.next * plan_->extents_per_row;
  ++front.next;
  --pending_rows_;
  const uint64_t position = row.origin.position;
  used_ =
      plan_->splits_records ? Place{position, row.origin.id.sub_index + 1} : Place{position + 1, 0};
  return Outcome::kRow;
}

// The output of the first `num_steps` steps.
Lane::Outcome Lane::PullStep(size_t num_steps, LaneRow& row) {
  if (num_steps == 0) return PullSource(row);
  const size_t step = num_steps - 1;
  StepState& state = steps_[step];
  if (plan_->steps[step].kind == SettleStep::Kind::kShuffle) return PullShuffled(step, row);
  if (plan_->steps[step].kind == SettleStep::Kind::kSkip) {
    for (; state.count < state.limit; ++state.count) {
      if (const Outcome outcome = PullInput(step, row); outcome != Outcome::kRow) return outcome;
      Drop(row.origin);
    }
    return PullInput(step, row);
  }
  if (state.count >= state.limit) return Outcome::kEnd;
  const Outcome outcome = PullInput(step, row);
  if (outcome == Outcome::kRow) ++state.count;
  return outcome;
}

// Pulls a row that step `step` sees: one that passed the filters in front of it.
Lane::Outcome Lane::PullInput(size_t step, LaneRow& row) {
  while (true) {
    const Outcome outcome = PullStep(step, row);
    if (outcome != Outcome::kRow || row.passed_filters >= plan_->steps[step].after_filters) {
      return outcome;
    }
    Drop(row.origin);
  }
}

void Lane::StartDrain(StepState& state) {
  state.draining = true;
  const size_t left = state.buffer.size();
  if (left == 0) return;
  const Permutation permutation(left, Mix64(state.key - 1));
  state.buffer.Reorder([&](size_t i) { return permutation(left - 1 - i); });
}

// Shuffles as the order does (order/shuffle.cc): a row leaves the slot that is drawn when the row
// that takes its place is there.
Lane::Outcome Lane::PullShuffled(size_t step, LaneRow& row) {
  StepState& state = steps_[step];
  const uint64_t width = std::min(state.limit, state.count + 1);
  while (!state.draining) {
    const Outcome outcome = PullInput(step, row);
    if (outcome == Outcome::kNeedsMore) return outcome;
    if (outcome == Outcome::kEnd) {
      StartDrain(state);
    } else if (state.buffer.size() < width) {
      state.buffer.Append(std::move(row), extents_);
    } else {
      const auto slot = static_cast<size_t>(DrawSlot(state.key + state.count++, width));
      LaneRow refill = std::exchange(row, state.buffer.row(slot));
      const int64_t* const drawn = state.buffer.extents(slot);
      state.extents.assign(drawn, drawn + plan_->extents_per_row);
      state.buffer.Replace(slot, std::move(refill), extents_);
      extents_ = state.extents.data();
      return Outcome::kRow;
    }
  }
  if (state.buffer.size() == 0) return Outcome::kEnd;
  state.buffer.TakeLast(row, state.extents);
  extents_ = state.extents.data();
  return Outcome::kRow;
}

Lane::Outcome Lane::Next(LaneRow& row) {
  while (!ended_) {
    const Outcome outcome = PullStep(steps_.size(), row);
    if (outcome == Outcome::kEnd) {
      EndPass();
    } else if (outcome == Outcome::kNeedsMore || row.passed_filters >= plan_->num_filters) {
      return outcome;
    } else {
      Drop(row.origin);
    }
  }
  return Outcome::kEnd;
}

void Lane::Write(StateWriter& writer) const {
  writer.Number(used_.position - first_);
  writer.Number(used_.sub_index);
  for (size_t i = 0; i < steps_.size(); ++i) {
    writer.Number(steps_[i].count);
    if (plan_->steps[i].kind != SettleStep::Kind::kShuffle) continue;
    writer.Number(steps_[i].draining ? 1 : 0);
    steps_[i].buffer.Write(writer, used_.position);
  }
}

void Lane::Read(StateReader& reader, uint64_t pass) {
  SetPass(pass);
  used_.position = first_ + reader.NumberUpTo(std::min(end_ - first_, kMaxCount));
  used_.sub_index = reader.Number();
  for (size_t i = 0; i < steps_.size(); ++i) {
    StepState& state = steps_[i];
    const bool shuffles = plan_->steps[i].kind == SettleStep::Kind::kShuffle;
    state.count = reader.NumberUpTo(shuffles ? kMaxCount : state.limit);
    if (!shuffles) continue;
    state.draining = reader.NumberUpTo(1) != 0;
    state.buffer.Read(reader, first_, used_.position, state.limit);
  }
  frontier_ = used_;
}

std::vector<RowBuffer*> Lane::OpenBuffers() {
  std::vector<RowBuffer*> buffers;
  for (StepState& state : steps_) {
    if (state.buffer.size() > 0) buffers.push_back(&state.buffer);
  }
  return buffers;
}

}  // namespace millrace::pipeline
