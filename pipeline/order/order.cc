#include "pipeline/order/order.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/order/node.h"
#include "pipeline/order/selection.h"

// Makes the tree, counts its elements and its epochs. map.cc evaluates it.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;
using NodePtr = std::shared_ptr<const OrderNode>;

absl::Status StageError(std::string_view stage, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("stage \"", ToAbsl(stage), "\": ", ToAbsl(text)));
}

uint64_t SaturatingProduct(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product >= kMaxCount) return kInfinite;
  return product;
}

uint64_t SaturatingSum(uint64_t a, uint64_t b) {
  return a >= kMaxCount || b >= kMaxCount || a + b >= kMaxCount ? kInfinite : a + b;
}

// How often the root is begun for the first `consumed` elements behind the node's stages.
uint64_t EpochsBegunOf(const OrderNode& node, uint64_t consumed) {
  if (consumed == 0) return 1;
  uint64_t epochs = 0;
  for (auto stage = node.stages.rbegin(); stage != node.stages.rend(); ++stage) {
    switch (stage->kind) {
      case Kind::kSkip:
        consumed += stage->count;
        break;
      case Kind::kRepeat:
        if (consumed > stage->inner_size) {
          const uint64_t passes = (consumed - 1) / stage->inner_size;
          epochs += passes * stage->inner_epochs;
          consumed -= passes * stage->inner_size;
        }
        break;
      case Kind::kGlobalShuffle:
        consumed = stage->inner_size;
        break;
      case Kind::kShuffle:
        consumed = stage->buffer->Consumed(consumed);
        break;
      case Kind::kShard: {
        // With its last element it has read to the end of its input.
        const uint64_t last = stage->second + (consumed - 1) * stage->count;
        const bool ends =
            stage->inner_size != kInfinite && stage->inner_size - last <= stage->count;
        consumed = ends ? stage->inner_size : last + 1;
        break;
      }
      case Kind::kInterleave:
      case Kind::kTake:
        break;
    }
  }
  return epochs + (node.epochs_begun ? node.epochs_begun(consumed) : 1);
}

uint64_t EpochsOfPassOf(const OrderNode& node) {
  return node.size == kInfinite ? kEndlessInputEpochs : EpochsBegunOf(node, node.size);
}

// Bytes and records of the sources below a node, for the mean size of a record.
struct Extent {
  uint64_t bytes = 0;
  uint64_t records = 0;
};

class Builder {
 public:
  Builder(std::span<const OrderSource> sources, uint64_t seed) : sources_(sources), seed_(seed) {}

  absl::StatusOr<NodePtr> Build(const OrderPlan& plan);
  absl::Status Append(const OrderStep& step, OrderNode& node) const;

 private:
  absl::Status MakeRoot(const OrderPlan& plan, OrderNode& node);
  absl::Status MakeSource(const OrderPlan& plan, OrderNode& node);
  absl::Status MakeJoin(const OrderPlan& plan, OrderNode& node);
  absl::Status AppendRepeat(const OrderStep& step, OrderNode& node, OrderStage& stage) const;
  absl::Status AppendGlobalShuffle(const OrderStep& step, const OrderNode& node,
                                   OrderStage& stage) const;
  absl::Status AppendShuffle(const OrderStep& step, const OrderNode& node, OrderStage& stage) const;
  absl::Status AppendShard(const OrderStep& step, OrderNode& node) const;
  absl::Status AppendByteShard(const OrderStep& step, OrderNode& node) const;
  absl::Status AppendSkip(const OrderStep& step, OrderNode& node) const;
  absl::Status AppendInterleave(const OrderStep& step, const OrderNode& node,
                                OrderStage& stage) const;

  const std::span<const OrderSource> sources_;
  const uint64_t seed_;
  const OrderSource* source_ = nullptr;  // the source of the node being built, if its root is one
  uint64_t first_record_ = 0;            // the first record of that source, if records are selected
  Extent extent_;                        // the extent of the node being built
};

absl::StatusOr<NodePtr> Builder::Build(const OrderPlan& plan) {
  auto node = std::make_shared<OrderNode>();
  node->root = plan.root;
  node->seed = seed_;
  MILLRACE_RETURN_IF_ERROR(MakeRoot(plan, *node));
  for (const OrderStep& step : plan.steps) MILLRACE_RETURN_IF_ERROR(Append(step, *node));
  return NodePtr(std::move(node));
}

absl::Status Builder::MakeRoot(const OrderPlan& plan, OrderNode& node) {
  if (plan.root == OrderPlan::Root::kSource) return MakeSource(plan, node);
  return MakeJoin(plan, node);
}

absl::Status Builder::MakeSource(const OrderPlan& plan, OrderNode& node) {
  if (plan.source >= sources_.size()) {
    return absl::InternalError(
        absl::StrCat("the order names source ", plan.source, " of ", sources_.size()));
  }
  for (const OrderSource& before : sources_.first(plan.source)) {
    node.first_record += before.num_records;
    if (before.num_records >= kMaxCount || node.first_record >= kMaxCount) {
      return StageError(plan.stage,
                        "stands behind a source without end, whose records would "
                        "leave it no numbers");
    }
  }
  source_ = &sources_[plan.source];
  node.size = source_->num_records < kMaxCount ? source_->num_records : kInfinite;
  extent_ = {std::min(source_->total_bytes, kMaxCount), std::min(node.size, kMaxCount)};
  if (source_->selection != nullptr) {
    node.selection = source_->selection;
    node.size = node.selection->KeptOf(node.first_record, node.size);
    first_record_ = std::exchange(node.first_record, node.selection->KeptBefore(node.first_record));
  }
  return absl::OkStatus();
}

absl::Status Builder::MakeJoin(const OrderPlan& plan, OrderNode& node) {
  Extent extent;
  std::vector<uint64_t> sizes;
  uint64_t end = 0;
  for (const OrderPlan& input : plan.inputs) {
    MILLRACE_ASSIGN_OR_RETURN(NodePtr made, Build(input));
    extent.bytes = std::min(extent.bytes + extent_.bytes, kMaxCount);
    extent.records = std::min(extent.records + extent_.records, kMaxCount);
    sizes.push_back(made->size);
    node.input_ends.push_back(end = SaturatingSum(end, made->size));
    node.input_epochs.push_back(EpochsOfPassOf(*made));
    node.inputs.push_back(std::move(made));
  }
  source_ = nullptr;
  extent_ = extent;
  node.wants_memo = true;
  node.size = end;
  if (plan.root == OrderPlan::Root::kMix) {
    auto mix = MixSchedule::Make(plan.weights, plan.inputs.size(), Mix64(Mix64(seed_) + plan.key));
    if (!mix.ok()) return StageError(plan.stage, ToStd(mix.status().message()));
    node.mix = *std::move(mix);
    node.size = node.mix->Size(sizes);
  }
  return absl::OkStatus();
}

absl::Status Builder::Append(const OrderStep& step, OrderNode& node) const {
  if (step.kind == Kind::kShard && step.by_bytes) return AppendByteShard(step, node);
  OrderStage stage;
  stage.kind = step.kind;
  stage.count = step.count;
  stage.second = step.second;
  stage.key = step.key;
  stage.inner_size = node.size;
  switch (step.kind) {
    case Kind::kRepeat:
      MILLRACE_RETURN_IF_ERROR(AppendRepeat(step, node, stage));
      break;
    case Kind::kGlobalShuffle:
      MILLRACE_RETURN_IF_ERROR(AppendGlobalShuffle(step, node, stage));
      break;
    case Kind::kShuffle:
      MILLRACE_RETURN_IF_ERROR(AppendShuffle(step, node, stage));
      break;
    case Kind::kInterleave:
      MILLRACE_RETURN_IF_ERROR(AppendInterleave(step, node, stage));
      break;
    case Kind::kShard:
      MILLRACE_RETURN_IF_ERROR(AppendShard(step, node));
      break;
    case Kind::kSkip:
      MILLRACE_RETURN_IF_ERROR(AppendSkip(step, node));
      break;
    case Kind::kTake:
      if (node.size != kInfinite || step.count < kMaxCount) {
        node.size = std::min(node.size, step.count);
      }
      break;
  }
  node.wants_memo |= step.kind == Kind::kGlobalShuffle || step.kind == Kind::kShuffle ||
                     step.kind == Kind::kInterleave;
  node.stages.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::Status Builder::AppendRepeat(const OrderStep& step, OrderNode& node,
                                   OrderStage& stage) const {
  const bool for_ever = step.count == 0;
  if (for_ever && node.size == 0) {
    return StageError(step.stage, "repeats for ever what has no elements");
  }
  if (node.size == kInfinite) {
    stage.inner_epochs = 1;
    return absl::OkStatus();
  }
  stage.inner_epochs = EpochsBegunOf(node, node.size);
  node.size = for_ever ? kInfinite : SaturatingProduct(node.size, step.count);
  return absl::OkStatus();
}

absl::Status Builder::AppendGlobalShuffle(const OrderStep& step, const OrderNode& node,
                                          OrderStage& stage) const {
  if (node.size == kInfinite) {
    return StageError(step.stage, "cannot shuffle a stream without end");
  }
  if (step.count == 0) return absl::OkStatus();
  // Elements whose records have about `count` bytes; of one byte each where they have no size.
  const uint64_t bytes = std::max<uint64_t>(extent_.bytes > 0 ? extent_.bytes : extent_.records, 1);
  const auto records = static_cast<unsigned __int128>(step.count) * extent_.records / bytes;
  const uint64_t most = std::max<uint64_t>(node.size, 1);
  BlockShuffle blocks;
  blocks.block = records > most ? most : std::max<uint64_t>(static_cast<uint64_t>(records), 1);
  blocks.window = step.second != 0 ? step.second : SaturatingProduct(blocks.block, kWindowBlocks);
  blocks.window = std::min(blocks.window, most);
  stage.blocks = blocks;
  return absl::OkStatus();
}

absl::Status Builder::AppendShuffle(const OrderStep& step, const OrderNode& node,
                                    OrderStage& stage) const {
  if (step.count == 0) return StageError(step.stage, "the buffer needs at least one slot");
  stage.buffer.emplace(std::min(step.count, kMaxCount), node.size);
  if (stage.buffer->num_slots() > kMaxShuffleBuffer) {
    return StageError(step.stage, ToStd(absl::StrCat("a buffer of more than ", kMaxShuffleBuffer,
                                                     " elements; global_shuffle needs none")));
  }
  return absl::OkStatus();
}

absl::Status Builder::AppendShard(const OrderStep& step, OrderNode& node) const {
  if (step.count == 0 || step.count > kMaxShards || step.second >= step.count) {
    return StageError(step.stage, ToStd(absl::StrCat("needs 1 to ", kMaxShards,
                                                     " shards and an index below their number")));
  }
  if (node.size == kInfinite) return absl::OkStatus();
  const uint64_t rest = node.size % step.count;
  node.size = node.size / step.count + (step.second < rest ? 1 : 0);
  return absl::OkStatus();
}

// Consecutive records are a skip and a take.
absl::Status Builder::AppendByteShard(const OrderStep& step, OrderNode& node) const {
  if (source_ == nullptr || !source_->first_of_part || !node.stages.empty()) {
    return StageError(step.stage, "by_bytes must stand directly behind a source of files");
  }
  const auto first_of = [&](uint64_t part) {
    const uint64_t record = source_->first_of_part(part, step.count);
    return node.selection == nullptr ? record : node.selection->KeptOf(first_record_, record);
  };
  OrderStep part;
  part.stage = step.stage;
  part.kind = Kind::kSkip;
  part.count = first_of(step.second);
  const uint64_t end = first_of(step.second + 1);
  MILLRACE_RETURN_IF_ERROR(Append(part, node));
  part.kind = Kind::kTake;
  part.count = end - part.count;
  return Append(part, node);
}

absl::Status Builder::AppendSkip(const OrderStep& step, OrderNode& node) const {
  if (node.size != kInfinite) {
    node.size -= std::min(node.size, step.count);
  } else if (step.count >= kMaxCount) {
    return StageError(step.stage, "skips more than 2^62 elements of a stream without end");
  }
  return absl::OkStatus();
}

absl::Status Builder::AppendInterleave(const OrderStep& step, const OrderNode& node,
                                       OrderStage& stage) const {
  if (source_ == nullptr || !node.stages.empty()) {
    return StageError(step.stage, "must stand directly behind a source of files");
  }
  if (step.count == 0 || step.second == 0) {
    return StageError(step.stage, "cycle_length and block_length must be at least 1");
  }
  InterleaveFiles files;
  files.lengths = source_->shard_records;
  if (node.selection != nullptr) {
    uint64_t first = first_record_;
    for (uint64_t& length : files.lengths) {
      const uint64_t records = std::exchange(length, node.selection->KeptOf(first, length));
      first += records;
    }
  }
  files.cycle_length = step.count;
  files.block_length = step.second;
  files.shuffle = step.shuffle_files;
  uint64_t end = 0;
  for (const uint64_t length : files.lengths) {
    files.first.push_back(end);
    end = SaturatingSum(end, length);
  }
  if (node.size == kInfinite || end != node.size) {
    return StageError(step.stage, "needs a source of files whose records are counted");
  }
  if (!files.shuffle) {
    files.table = std::make_shared<const InterleaveTable>(files.lengths, files.cycle_length,
                                                          files.block_length);
  }
  stage.files = std::move(files);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Order> Order::Make(const OrderPlan& plan, std::span<const OrderSource> sources,
                                  uint64_t seed) {
  MILLRACE_ASSIGN_OR_RETURN(NodePtr root, Builder(sources, seed).Build(plan));
  return Order(std::move(root));
}

absl::StatusOr<Order> Order::MakeOver(uint64_t size, std::span<const OrderStep> steps,
                                      uint64_t seed,
                                      std::function<uint64_t(uint64_t)> epochs_begun) {
  auto node = std::make_shared<OrderNode>();
  node->seed = seed;
  node->size = size;
  node->epochs_begun = std::move(epochs_begun);
  const Builder builder({}, seed);
  for (const OrderStep& step : steps) MILLRACE_RETURN_IF_ERROR(builder.Append(step, *node));
  return Order(std::move(node));
}

uint64_t Order::size() const { return root_->size; }

uint64_t Order::EpochsBegun(uint64_t consumed) const { return EpochsBegunOf(*root_, consumed); }

uint64_t Order::EpochsOfPass() const { return EpochsOfPassOf(*root_); }

uint64_t Order::EpochAt(uint64_t position, uint64_t epoch) const {
  for (auto stage = root_->stages.rbegin(); stage != root_->stages.rend(); ++stage) {
    if (stage->kind == Kind::kGlobalShuffle) position = 0;
    if (stage->kind == Kind::kSkip) position += stage->count;
    if (stage->kind == Kind::kShard) position = stage->second + position * stage->count;
    if (stage->kind == Kind::kRepeat && position >= stage->inner_size) {
      const uint64_t pass = position / stage->inner_size;
      epoch += pass * stage->inner_epochs;
      position -= pass * stage->inner_size;
    }
  }
  return epoch;
}

uint64_t Order::WindowSize() const {
  uint64_t stride = 1;  // of its elements that come out
  for (auto stage = root_->stages.rbegin(); stage != root_->stages.rend(); ++stage) {
    if (stage->kind == Kind::kShard) stride *= stage->count;
    if (stage->kind == Kind::kGlobalShuffle && stage->blocks.has_value()) {
      return std::max<uint64_t>(stage->blocks->window / stride, 1);
    }
    const bool keeps_windows = stage->kind == Kind::kShard || stage->kind == Kind::kRepeat ||
                               stage->kind == Kind::kSkip || stage->kind == Kind::kTake;
    if (!keeps_windows || stride >= kMaxCount) return 0;
  }
  return 0;
}

uint64_t Order::WindowEnd(uint64_t position) const {
  uint64_t element = position;  // in front of the stages so far
  uint64_t stride = 1;
  for (auto stage = root_->stages.rbegin(); stage != root_->stages.rend(); ++stage) {
    if (stage->kind == Kind::kSkip) element += stage->count;
    if (stage->kind == Kind::kRepeat) element %= stage->inner_size;
    if (stage->kind == Kind::kShard) {
      element = stage->second + element * stage->count;
      stride *= stage->count;
    }
    if (stage->kind != Kind::kGlobalShuffle) continue;
    const uint64_t window = stage->blocks->window;
    const uint64_t end = std::min((element / window + 1) * window, stage->inner_size);
    return position + (end - element + stride - 1) / stride;
  }
  return kInfinite;
}

uint64_t Order::EpochSize() const {
  const auto repeat = std::ranges::find(root_->stages, Kind::kRepeat, &OrderStage::kind);
  if (repeat == root_->stages.end()) return size() == kInfinite ? 0 : size();
  const bool kept = std::all_of(repeat + 1, root_->stages.end(), [](const OrderStage& stage) {
    return stage.kind == Kind::kTake || stage.kind == Kind::kShuffle;
  });
  return kept && repeat->inner_size != kInfinite ? repeat->inner_size : 0;
}

}  // namespace millrace::pipeline
