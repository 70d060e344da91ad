#ifndef MILLRACE_PIPELINE_ORDER_NODE_H_
#define MILLRACE_PIPELINE_ORDER_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/philox.h"
#include "pipeline/order/interleave.h"
#include "pipeline/order/mix.h"
#include "pipeline/order/order.h"
#include "pipeline/order/shuffle.h"
#include "pipeline/plan/physical.h"

// The inside of an Order: the tree, and what a memo keeps for each of its parts.

namespace millrace::pipeline {

// The key of a stage in one epoch (S-ORDER-4).
inline uint64_t EpochKey(uint64_t seed, uint64_t stage, uint64_t epoch) {
  return Mix64(Mix64(Mix64(seed) + stage) + epoch);
}

// An input without end that is begun again goes on so many epochs later (S-ORDER-13).
inline constexpr uint64_t kEndlessInputEpochs = uint64_t{1} << 32;

// One step over an input of known size.
struct OrderStage {
  OrderStep::Kind kind = OrderStep::Kind::kTake;
  uint64_t count = 0;
  uint64_t second = 0;
  uint64_t key = 0;
  uint64_t inner_size = 0;
  uint64_t inner_epochs = 0;             // kRepeat: how often one inner pass begins the root
  std::optional<BlockShuffle> blocks;    // kGlobalShuffle with block_bytes
  std::optional<BufferShuffle> buffer;   // kShuffle
  std::optional<InterleaveFiles> files;  // kInterleave
};

// A root and the stages behind it. Immutable once made.
struct OrderNode {
  OrderPlan::Root root = OrderPlan::Root::kSource;
  uint64_t seed = 0;
  // kSource
  uint64_t first_record = 0;                       // number of the source's record 0
  std::shared_ptr<const Selection> selection;      // then among the records that are kept
  std::function<uint64_t(uint64_t)> epochs_begun;  // MakeOver; else it is begun once
  // Joins
  std::vector<std::shared_ptr<const OrderNode>> inputs;
  std::vector<uint64_t> input_epochs;  // epochs between two passes over the input
  std::vector<uint64_t> input_ends;    // kConcatenate: position behind each input
  std::optional<MixSchedule> mix;      // kMix
  std::vector<OrderStage> stages;
  uint64_t size = 0;
  bool wants_memo = false;  // true if a memo makes it faster
};

struct StageMemo {
  BlockShuffle::Permutations permutations;     // kGlobalShuffle; `whole` of single records too
  std::unique_ptr<BufferShuffleState> buffer;  // kShuffle
  std::unique_ptr<InterleaveMemo> interleave;  // kInterleave
};

struct NodeMemo {
  explicit NodeMemo(const OrderNode& node);

  std::vector<StageMemo> stages;
  // Joins: the part of the present call that goes to each input.
  struct Input {
    std::unique_ptr<NodeMemo> memo;
    std::vector<SampleId> places;
    std::vector<size_t> rows;  // the rows of these places in the call's
  };
  std::vector<Input> inputs;
  std::unique_ptr<MixMemo> mix;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_NODE_H_
