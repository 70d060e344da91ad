#include <algorithm>

#include "pipeline/order/order.h"

namespace millrace::pipeline {

uint64_t LaneBlock(const PhysicalPlan& plan) {
  if (plan.batch.kind == BatchSpec::Kind::kBucket) return 1;
  return std::max<uint64_t>(plan.batch.size / std::max<uint64_t>(plan.lanes, 1), 1);
}

uint64_t LanesForWorld(const PhysicalPlan& plan, uint64_t world) {
  if (world <= plan.lanes || !LanesAreFree(plan)) return plan.lanes;
  return plan.batch.size % world == 0 ? world : plan.batch.size;
}

uint64_t LaneSize(uint64_t order_size, uint64_t lane, uint64_t lanes, uint64_t block) {
  if (order_size == kInfinite) return kInfinite;
  const uint64_t turn = lanes * block;  // positions dealt until a lane comes again
  const uint64_t rest = order_size % turn;
  const uint64_t before = lane * block;
  return order_size / turn * block + (rest > before ? std::min(rest - before, block) : 0);
}

std::vector<uint64_t> LaneSizes(const PhysicalPlan& plan, uint64_t order_size) {
  const uint64_t block = LaneBlock(plan);
  std::vector<uint64_t> sizes;
  for (uint64_t lane = 0; lane < plan.lanes; ++lane) {
    sizes.push_back(LaneSize(order_size, lane, plan.lanes, block));
  }
  return sizes;
}

uint64_t LanePosition(uint64_t i, uint64_t lane, uint64_t lanes, uint64_t block) {
  return i / block * block * lanes + lane * block + i % block;
}

LaneOrder::LaneOrder(Order order, uint64_t lane, uint64_t lanes, uint64_t block)
    : order_(std::move(order)),
      lane_(lane),
      lanes_(lanes),
      block_(block),
      size_(LaneSize(order_.size(), lane, lanes, block)),
      epochs_per_pass_(order_.size() == kInfinite ? 1 : order_.EpochsBegun(order_.size())) {}

void LaneOrder::Fill(uint64_t first, std::span<SampleId> ids, OrderMemo* memo) const {
  const bool endless = size_ == kInfinite;
  uint64_t pass = endless ? 0 : first / size_;
  uint64_t i = endless ? first : first % size_;
  for (SampleId& id : ids) {
    id = {.epoch = PassEpoch(pass), .record = LanePosition(i, lane_, lanes_, block_)};
    if (++i == size_) {
      i = 0;
      ++pass;
    }
  }
  order_.Map(ids, memo);
}

}  // namespace millrace::pipeline
