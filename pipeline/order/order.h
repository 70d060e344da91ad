#ifndef MILLRACE_PIPELINE_ORDER_ORDER_H_
#define MILLRACE_PIPELINE_ORDER_ORDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/run.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/limits.h"
#include "pipeline/plan/physical.h"

// Where every row comes from, as arithmetic (docs/semantics.md, S-ORDER, S-BATCH, S-RANK).
//
// The order of records never depends on what is in them, so element i of it is found without
// walking the stream: the steps are undone from the outside inwards, each in O(1) or nearly so. No
// thread owns "the iterator"; any worker evaluates any position. A memo makes mostly ascending
// access faster and never changes a result.

namespace millrace::pipeline {

// A count without end.
inline constexpr uint64_t kInfinite = ~uint64_t{0};

class Selection;

// The facts that the order has to know of a source of the plan.
struct OrderSource {
  uint64_t num_records = 0;  // kInfinite: a growing stream, a zip without end
  uint64_t total_bytes = 0;  // the bytes of all records, for global_shuffle's block_bytes
  std::vector<uint64_t> shard_records;  // the records of each file, in order; for interleave
  // The first record of part `part` of `num_parts` parts of about as many bytes each, for shard {
  // by_bytes }. Only of sources of files.
  std::function<uint64_t(uint64_t part, uint64_t num_parts)> first_of_part = nullptr;
  // The records, over all sources, that there are for the order. Null: all.
  std::shared_ptr<const Selection> selection = nullptr;
};

struct OrderNode;
struct NodeMemo;
class OrderMemo;

// A tree of sources and joins with steps behind them. A handle of an immutable tree: cheap to copy,
// thread-safe.
class Order {
 public:
  // Records are numbered through all sources in order, those that are not selected included.
  //   INVALID_ARGUMENT  names the stage: an option out of range, interleave anywhere but directly
  //                     on a source of shards, repeat for ever of nothing, global_shuffle, a huge
  //                     skip or an interleave of an infinite stream
  static absl::StatusOr<Order> Make(const OrderPlan& plan, std::span<const OrderSource> sources,
                                    uint64_t seed);
  // The steps over `size` things that are made of the elements of another order, as batches are;
  // `epochs_begun(n)` as EpochsBegun of the first n things.
  static absl::StatusOr<Order> MakeOver(uint64_t size, std::span<const OrderStep> steps,
                                        uint64_t seed,
                                        std::function<uint64_t(uint64_t)> epochs_begun);

  // Elements of one pass; kInfinite without end.
  uint64_t size() const;
  // Turns places of the output, (epoch in which the pass begins, position in it), into samples,
  // (epoch, record). `memo` is of this order, or null. REQUIRES: every position < size().
  void Map(std::span<SampleId> places, OrderMemo* memo) const;
  // The epoch of `position` in a pass that begins in `epoch`: a global_shuffle counts as a whole, a
  // shuffle as if it moved nothing, and a join by how often it was begun (S-ORDER-13).
  uint64_t EpochAt(uint64_t position, uint64_t epoch) const;
  // How often the source, or the outermost join, is begun for the first `consumed` elements of a
  // pass.
  uint64_t EpochsBegun(uint64_t consumed) const;
  // By how many epochs the source, or the outermost join, goes on from one pass to the next where a
  // join begins the passes (S-ORDER-13).
  uint64_t EpochsOfPass() const;
  // The bytes that a memo keeps for the slots of all shuffles, which are by far the most of it.
  uint64_t MemoBytes() const;
  // The number of elements of an epoch if all epochs have as many and follow each other; else 0.
  uint64_t EpochSize() const;
  // The elements of a window of a block-wise global_shuffle that come out one after the other;
  // 0: there is none, or what follows it takes its windows apart.
  uint64_t WindowSize() const;
  // The position behind the window in which the element at `position` of a pass comes out.
  // REQUIRES: WindowSize() > 0.
  uint64_t WindowEnd(uint64_t position) const;

 private:
  friend class OrderMemo;
  explicit Order(std::shared_ptr<const OrderNode> root) : root_(std::move(root)) {}

  std::shared_ptr<const OrderNode> root_;
};

// The memory of Order::Map from call to call: permutations, the buffer of a shuffle, the table of
// an interleave. Once used it holds 4 bytes for each slot of a shuffle's buffer (8 over 2^32 and
// more elements), about 200 for each file of an interleave that shuffles its files, and up to 4 MiB
// for a mix. Without one, each call of Map begins anew: about b ln b steps for a shuffle of b.
// Thread-compatible.
class OrderMemo {
 public:
  explicit OrderMemo(const Order& order);
  OrderMemo(OrderMemo&&) noexcept;
  OrderMemo& operator=(OrderMemo&&) noexcept;
  ~OrderMemo();

 private:
  friend class Order;
  std::shared_ptr<const OrderNode> root_;
  std::unique_ptr<NodeMemo> memo_;
};

// Lanes: positions of a pass are dealt to lanes in blocks, the rows of one lane in a global batch.
// Rows of such a block; 1 for buckets, whose batches have no size of their own.
uint64_t LaneBlock(const PhysicalPlan& plan);
// The number of lanes that a world of so many ranks needs: the plan's, or where lanes are free as
// many as give each rank the rows that it would have without a cut. REQUIRES: world is at most the
// batch size where lanes are free.
uint64_t LanesForWorld(const PhysicalPlan& plan, uint64_t world);
// Positions of a pass of `order_size` that go to a lane. REQUIRES: lane < lanes, block > 0.
uint64_t LaneSize(uint64_t order_size, uint64_t lane, uint64_t lanes, uint64_t block);
// The sizes of all lanes of a plan.
std::vector<uint64_t> LaneSizes(const PhysicalPlan& plan, uint64_t order_size);
// The position of element i of a lane in its pass.
uint64_t LanePosition(uint64_t i, uint64_t lane, uint64_t lanes, uint64_t block);

// The elements that one lane reads, of pass after pass of an order. Immutable, thread-safe.
class LaneOrder {
 public:
  // REQUIRES: lane < lanes, block > 0.
  LaneOrder(Order order, uint64_t lane, uint64_t lanes, uint64_t block);

  // Elements of the lane in one pass; kInfinite without end.
  uint64_t size() const { return size_; }
  const Order& order() const { return order_; }
  // The epoch in which a pass begins when every pass before it was read to its end.
  uint64_t PassEpoch(uint64_t pass) const { return pass * epochs_per_pass_; }
  // The samples of positions first, first + 1, ... of the lane, counted on through all passes.
  // REQUIRES: size() > 0.
  void Fill(uint64_t first, std::span<SampleId> ids, OrderMemo* memo) const;

 private:
  Order order_;
  uint64_t lane_;
  uint64_t lanes_;
  uint64_t block_;
  uint64_t size_;
  uint64_t epochs_per_pass_;
};

// Where the rows of one global batch come from.
struct BatchPlace {
  uint64_t index = 0;           // the number of the global batch
  uint64_t pass_epoch = 0;      // epoch in which this pass over the record order begins
  uint64_t first_position = 0;  // the position of row 0 in that pass
  uint64_t valid_rows = 0;      // at most the batch size
  uint64_t epoch = 0;           // Batch::epoch
  bool ends_epoch = false;      // true if Batch::ends_epoch
};

// Order of records and of batches together. Immutable after Make, thread-safe.
class BatchOrder {
 public:
  //   INVALID_ARGUMENT  as Order::Make; or batch_size is 0
  static absl::StatusOr<BatchOrder> Make(const PhysicalPlan& plan,
                                         std::span<const OrderSource> sources);

  // Batches of the whole stream; kInfinite without end.
  uint64_t num_batches() const { return batches_.size(); }
  StreamLength length() const;
  // REQUIRES: batch < num_batches() and batch * batch_size < kMaxCount.
  BatchPlace Place(uint64_t batch) const;
  // The samples of rows first_row, first_row + 1, ... of a batch. REQUIRES: they are valid rows.
  // `memo` is of records(), or null.
  void Fill(const BatchPlace& place, uint64_t first_row, std::span<SampleId> ids,
            OrderMemo* memo) const;
  // The order of records in a pass over the batch stage.
  const Order& records() const { return records_; }

 private:
  BatchOrder(Order records, Order batches, const PhysicalPlan& plan);
  BatchPlace PlaceAlone(uint64_t batch) const;  // without ends_epoch

  Order records_;
  Order batches_;
  uint64_t batch_size_;
  uint64_t batches_per_epoch_ = 0;
};

// The rows of every global batch that one rank makes: [rank B / world, (rank + 1) B / world).
struct RankSlice {
  uint64_t first_row = 0;
  uint64_t num_rows = 0;     // the rows of this rank
  uint64_t padded_rows = 0;  // the rows of the largest slice, and of every rank's tensors
};
// Where world > batch_size some ranks have no rows. REQUIRES: 0 <= rank < world.
RankSlice SliceOfRank(uint64_t batch_size, int rank, int world);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_ORDER_H_
