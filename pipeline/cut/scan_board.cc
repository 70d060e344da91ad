#include "pipeline/cut/scan_board.h"

#include <algorithm>
#include <utility>

#include "pipeline/order/order.h"

namespace millrace::pipeline {

void ScanBoard::Reset(const Settler& settler, std::span<const uint64_t> ends) {
  lanes_.clear();
  num_blocks_ = 0;
  for (const uint64_t number : settler.lanes()) {
    Lane& lane = lanes_.emplace_back();
    lane.lane = number;
    lane.next = settler.NextPosition(number);
    lane.end = ends[number];
    lane.wants_more = settler.WantsMore(number);
    for (const RowOrigin& row : settler.OpenRows(number)) lane.reopen.push_back(row.position);
    lane.reopened.lane = number;
  }
}

void ScanBoard::SetEnds(std::span<const uint64_t> ends) {
  for (Lane& lane : lanes_) lane.end = ends[lane.lane];
}

std::optional<uint64_t> ScanBoard::FirstMissing(uint64_t lanes, uint64_t block) const {
  std::optional<uint64_t> first;
  for (const Lane& lane : lanes_) {
    if (!lane.wants_more || lane.is_done || lane.next < lane.end) continue;
    const uint64_t position = LanePosition(lane.next, lane.lane, lanes, block);
    first = std::min(first.value_or(position), position);
  }
  return first;
}

// The lane with the least under way, of those that want more; then the one furthest behind.
size_t ScanBoard::FindLane(uint64_t ahead) const {
  size_t best = lanes_.size();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    const bool reopens = lane.reopen_next < lane.reopen.size();
    const bool claims = lane.next < lane.end && (lane.wants_more || lane.is_done);
    if (!reopens && !claims) continue;
    if (lane.under_way >= ahead) continue;
    if (best == lanes_.size() || std::pair(lane.under_way, lane.next) <
                                     std::pair(lanes_[best].under_way, lanes_[best].next)) {
      best = i;
    }
  }
  return best;
}

ScanClaim ScanBoard::Claim(uint64_t rows, uint64_t ahead) {
  ScanClaim claim;
  claim.lane_index = FindLane(ahead);
  Lane& lane = lanes_[claim.lane_index];
  const uint64_t limit = std::min(rows, ahead - lane.under_way);
  claim.lane = lane.lane;
  claim.reopens = lane.reopen_next < lane.reopen.size();
  if (claim.reopens) {
    claim.first = lane.reopen_next;
    claim.count = std::min<uint64_t>(limit, lane.reopen.size() - lane.reopen_next);
    const auto begin = lane.reopen.begin() + static_cast<int64_t>(claim.first);
    claim.positions.assign(begin, begin + static_cast<int64_t>(claim.count));
    lane.reopen_next += claim.count;
  } else {
    claim.first = lane.next;
    claim.count = std::min(limit, lane.end - lane.next);
    claim.discards = lane.is_done;
    lane.next += claim.count;
  }
  if (!claim.discards) lane.under_way += claim.count;
  return claim;
}

ScanBlock* ScanBoard::Append(const ScanClaim& claim, uint64_t first, uint64_t end) {
  auto block = std::make_unique<ScanBlock>();
  block->reopens = claim.reopens;
  block->found.lane = claim.lane;
  block->found.first = first;
  block->found.end = end;
  ++num_blocks_;
  return lanes_[claim.lane_index].blocks.emplace_back(std::move(block)).get();
}

bool ScanBoard::HasHeads() const {
  return std::ranges::any_of(
      lanes_, [](const Lane& lane) { return !lane.blocks.empty() && lane.blocks.front()->done; });
}

ScanBoard::Heads ScanBoard::TakeHeads() {
  Heads heads;
  for (Lane& lane : lanes_) {
    while (!lane.blocks.empty() && lane.blocks.front()->done) {
      ScanBlock& block = *lane.blocks.front();
      const uint64_t count = block.found.end - block.found.first;
      lane.under_way -= count;
      if (!block.reopens) {
        heads.found.push_back(std::move(block.found));
      } else {
        Gather(lane, block.found);
        lane.reopen_done += count;
        if (lane.reopen_done == lane.reopen.size()) {
          heads.reopened.push_back(std::exchange(lane.reopened, {}));
        }
      }
      lane.blocks.pop_front();
      --num_blocks_;
    }
  }
  return heads;
}

void ScanBoard::Gather(Lane& lane, const Examined& found) {
  Examined& all = lane.reopened;
  const auto errors = static_cast<int32_t>(all.errors.size());
  for (Examined::Row row : found.rows) {
    if (row.error >= 0) row.error += errors;
    all.rows.push_back(row);
  }
  all.extents.insert(all.extents.end(), found.extents.begin(), found.extents.end());
  all.errors.insert(all.errors.end(), found.errors.begin(), found.errors.end());
}

void ScanBoard::Update(const Settler& settler) {
  for (Lane& lane : lanes_) {
    lane.wants_more = settler.WantsMore(lane.lane);
    lane.is_done = settler.LaneIsDone(lane.lane);
    lane.next = std::max(lane.next, settler.NextPosition(lane.lane));
  }
}

}  // namespace millrace::pipeline
