#include <algorithm>
#include <utility>

#include "base/status.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

uint64_t BatchesOf(uint64_t records, uint64_t batch_size, bool drop_remainder) {
  if (records == kInfinite) return kInfinite;
  return records / batch_size + (!drop_remainder && records % batch_size != 0 ? 1 : 0);
}

// Elements left of `size` after the steps in front of the first repeat.
uint64_t SizeBeforeRepeat(std::span<const OrderStep> steps, uint64_t size) {
  for (const OrderStep& step : steps) {
    if (step.kind == Kind::kRepeat) break;
    if (step.kind == Kind::kTake) size = std::min(size, step.count);
    if (step.kind == Kind::kSkip) size -= std::min(size, step.count);
  }
  return size;
}

// Batches of one epoch, when every epoch begins with a batch of its own; else 0.
uint64_t WholeBatchesPerEpoch(const PhysicalPlan& plan, const Order& records) {
  const uint64_t pass = records.size();
  if (pass == 0) return 0;
  if (pass != kInfinite && records.EpochsBegun(pass) == 1) {
    return SizeBeforeRepeat(plan.batch_order,
                            BatchesOf(pass, plan.batch.size, plan.batch.drop_remainder));
  }
  // Epochs follow each other inside the record order: they align only when B divides them.
  if (!plan.batch_order.empty()) return 0;
  const uint64_t epoch = records.EpochSize();
  return epoch % plan.batch.size == 0 ? epoch / plan.batch.size : 0;
}

}  // namespace

absl::StatusOr<BatchOrder> BatchOrder::Make(const PhysicalPlan& plan,
                                            std::span<const OrderSource> sources) {
  if (plan.batch.size == 0 || plan.batch.size >= kMaxCount) {
    return absl::InvalidArgumentError("the batch size must be in [1, 2^62)");
  }
  MILLRACE_ASSIGN_OR_RETURN(Order records, Order::Make(plan.order, sources, plan.seed));
  const uint64_t pass = records.size();
  const uint64_t batches_of_pass = BatchesOf(pass, plan.batch.size, plan.batch.drop_remainder);
  // A pass whose batches are all consumed was read to its end, even if a remainder was dropped.
  const auto epochs_begun = [=, batch_size = plan.batch.size](uint64_t batches) {
    return records.EpochsBegun(batches >= batches_of_pass ? pass : batches * batch_size);
  };
  MILLRACE_ASSIGN_OR_RETURN(
      Order batches, Order::MakeOver(batches_of_pass, plan.batch_order, plan.seed, epochs_begun));
  return BatchOrder(std::move(records), std::move(batches), plan);
}

BatchOrder::BatchOrder(Order records, Order batches, const PhysicalPlan& plan)
    : records_(std::move(records)),
      batches_(std::move(batches)),
      batch_size_(plan.batch.size),
      batches_per_epoch_(WholeBatchesPerEpoch(plan, records_)) {}

StreamLength BatchOrder::length() const {
  const bool infinite = num_batches() == kInfinite;
  return {.infinite = infinite,
          .batches = infinite ? 0 : num_batches(),
          .batches_per_epoch = batches_per_epoch_};
}

BatchPlace BatchOrder::PlaceAlone(uint64_t batch) const {
  SampleId element{.epoch = 0, .record = batch};
  batches_.Map({&element, 1}, nullptr);
  BatchPlace place;
  place.index = batch;
  place.pass_epoch = element.epoch;
  place.first_position = element.record * batch_size_;
  place.valid_rows = records_.size() == kInfinite
                         ? batch_size_
                         : std::min(batch_size_, records_.size() - place.first_position);
  place.epoch = records_.EpochAt(place.first_position, place.pass_epoch);
  return place;
}

BatchPlace BatchOrder::Place(uint64_t batch) const {
  BatchPlace place = PlaceAlone(batch);
  place.ends_epoch = batch + 1 == num_batches() || PlaceAlone(batch + 1).epoch != place.epoch;
  return place;
}

void BatchOrder::Fill(const BatchPlace& place, uint64_t first_row, std::span<SampleId> ids,
                      OrderMemo* memo) const {
  uint64_t position = place.first_position + first_row;
  for (SampleId& id : ids) id = {.epoch = place.pass_epoch, .record = position++};
  records_.Map(ids, memo);
}

RankSlice SliceOfRank(uint64_t batch_size, int rank, int world) {
  using Wide = unsigned __int128;
  const auto bound = [&](int k) {
    return static_cast<uint64_t>(static_cast<Wide>(k) * batch_size / static_cast<Wide>(world));
  };
  const uint64_t ranks = static_cast<uint64_t>(world);
  return {.first_row = bound(rank),
          .num_rows = bound(rank + 1) - bound(rank),
          .padded_rows = batch_size / ranks + (batch_size % ranks != 0 ? 1 : 0)};
}

}  // namespace millrace::pipeline
