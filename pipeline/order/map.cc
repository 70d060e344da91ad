#include <algorithm>

#include "pipeline/order/node.h"
#include "pipeline/order/order.h"
#include "pipeline/order/selection.h"

// Evaluates an order: undoes the stages of a node from the outside inwards, for all places of a
// call at once, and hands what comes from the inputs of a join down to them.

namespace millrace::pipeline {

NodeMemo::NodeMemo(const OrderNode& node) : stages(node.stages.size()), inputs(node.inputs.size()) {
  for (size_t j = 0; j < inputs.size(); ++j) {
    inputs[j].memo = std::make_unique<NodeMemo>(*node.inputs[j]);
  }
}

namespace {

using Kind = OrderStep::Kind;
using Places = std::span<SampleId>;

void UndoRepeat(const OrderStage& stage, Places places) {
  for (SampleId& place : places) {
    if (place.record < stage.inner_size) continue;
    const uint64_t pass = place.record / stage.inner_size;
    place.epoch += pass * stage.inner_epochs;
    place.record -= pass * stage.inner_size;
  }
}

// Calls `undo(places, key)` for each longest row of places of one epoch.
template <typename Undo>
void UndoKeyed(uint64_t seed, const OrderStage& stage, Places places, Undo undo) {
  for (size_t begin = 0; begin < places.size();) {
    const uint64_t epoch = places[begin].epoch;
    size_t end = begin + 1;
    while (end < places.size() && places[end].epoch == epoch) ++end;
    undo(places.subspan(begin, end - begin), EpochKey(seed, stage.key, epoch));
    begin = end;
  }
}

void UndoGlobalShuffle(const OrderStage& stage, uint64_t key, StageMemo& memo, Places places) {
  BlockShuffle::Permutations& permutations = memo.permutations;
  const uint64_t size = stage.inner_size;
  if (stage.blocks.has_value()) {
    for (SampleId& place : places) {
      place.record = stage.blocks->InputOf(place.record, size, key, permutations);
    }
    return;
  }
  const Permutation& permutation = permutations.whole.Get(size, key);
  for (SampleId& place : places) place.record = permutation(place.record);
}

void UndoStage(const OrderStage& stage, uint64_t seed, StageMemo* memo, Places places) {
  switch (stage.kind) {
    case Kind::kRepeat:
      return UndoRepeat(stage, places);
    case Kind::kSkip:
      for (SampleId& place : places) place.record += stage.count;
      return;
    case Kind::kShard:
      for (SampleId& place : places) place.record = stage.second + place.record * stage.count;
      return;
    case Kind::kTake:
      return;
    case Kind::kGlobalShuffle:
      return UndoKeyed(seed, stage, places, [&](Places part, uint64_t key) {
        UndoGlobalShuffle(stage, key, *memo, part);
      });
    case Kind::kShuffle:
      if (memo->buffer == nullptr) memo->buffer = MakeBufferShuffleState(&*stage.buffer);
      return UndoKeyed(seed, stage, places,
                       [&](Places part, uint64_t key) { memo->buffer->Undo(part, key); });
    case Kind::kInterleave:
      if (memo->interleave == nullptr) {
        memo->interleave = std::make_unique<InterleaveMemo>(&*stage.files);
      }
      return UndoKeyed(seed, stage, places, [&](Places part, uint64_t key) {
        for (SampleId& place : part) place.record = memo->interleave->RecordAt(place.record, key);
      });
  }
}

uint64_t SlotBytes(const OrderNode& node) {
  uint64_t bytes = 0;
  for (const OrderStage& stage : node.stages) {
    if (stage.buffer.has_value()) bytes += stage.buffer->state_bytes();
  }
  for (const auto& input : node.inputs) bytes += SlotBytes(*input);
  return bytes;
}

void MapNode(const OrderNode& node, NodeMemo* memo, Places places);

void MapJoin(const OrderNode& node, NodeMemo& memo, Places places) {
  if (node.mix.has_value() && memo.mix == nullptr) memo.mix = std::make_unique<MixMemo>();
  for (size_t i = 0; i < places.size(); ++i) {
    uint64_t input = 0, index = 0;
    if (node.mix.has_value()) {
      const MixSchedule::Pick pick = node.mix->At(places[i].record, *memo.mix);
      input = pick.input;
      index = pick.index;
    } else {
      const auto& ends = node.input_ends;
      input =
          static_cast<uint64_t>(std::ranges::upper_bound(ends, places[i].record) - ends.begin());
      index = places[i].record - (input == 0 ? 0 : ends[input - 1]);
    }
    memo.inputs[input].places.push_back(
        {.epoch = places[i].epoch * node.input_epochs[input], .record = index});
    memo.inputs[input].rows.push_back(i);
  }
  for (size_t input = 0; input < memo.inputs.size(); ++input) {
    NodeMemo::Input& part = memo.inputs[input];
    MapNode(*node.inputs[input], part.memo.get(), part.places);
    for (size_t i = 0; i < part.rows.size(); ++i) places[part.rows[i]] = part.places[i];
    part.places.clear();
    part.rows.clear();
  }
}

// `memo` may be null where the node does not want one.
void MapNode(const OrderNode& node, NodeMemo* memo, Places places) {
  if (places.empty()) return;
  for (size_t i = node.stages.size(); i-- > 0;) {
    UndoStage(node.stages[i], node.seed, memo == nullptr ? nullptr : &memo->stages[i], places);
  }
  if (node.root != OrderPlan::Root::kSource) return MapJoin(node, *memo, places);
  if (node.selection != nullptr) return node.selection->ToRecords(node.first_record, places);
  if (node.first_record == 0) return;
  for (SampleId& place : places) place.record += node.first_record;
}

}  // namespace

uint64_t Order::MemoBytes() const { return SlotBytes(*root_); }

OrderMemo::OrderMemo(const Order& order)
    : root_(order.root_), memo_(std::make_unique<NodeMemo>(*root_)) {}
OrderMemo::OrderMemo(OrderMemo&&) noexcept = default;
OrderMemo& OrderMemo::operator=(OrderMemo&&) noexcept = default;
OrderMemo::~OrderMemo() = default;

void Order::Map(std::span<SampleId> places, OrderMemo* memo) const {
  if (!root_->wants_memo) return MapNode(*root_, nullptr, places);
  if (memo != nullptr) return MapNode(*root_, memo->memo_.get(), places);
  NodeMemo alone(*root_);
  MapNode(*root_, &alone, places);
}

}  // namespace millrace::pipeline
