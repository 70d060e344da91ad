#ifndef MILLRACE_PIPELINE_ORDER_INTERNAL_H_
#define MILLRACE_PIPELINE_ORDER_INTERNAL_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/run.h"
#include "pipeline/physical_plan_internal.h"
#include "pipeline/pipeline.h"

// Where every row comes from, as arithmetic (docs/semantics.md, S-ORDER, S-BATCH, S-RANK).
//
// A plan without a cut never changes how many elements there are by looking at them, so row r of
// batch g is found without walking the stream: the steps are undone from the outside inwards, each
// in O(1). No thread owns "the iterator"; any worker evaluates any position.

namespace millrace::pipeline {

// A count without end.
inline constexpr uint64_t kInfinite = ~uint64_t{0};
// Finite counts stay below; a longer stream is as good as infinite (at 1e9 records a second it
// lasts a century), and sums of two counts cannot overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 62;

// A chain of steps over a source of known size. Immutable after Make, thread-safe.
class Order {
 public:
  // `epochs_begun(n)`: how often the source of all sources is begun for the first n elements of
  // this chain's source.
  //   INVALID_ARGUMENT  names the stage: repeat for ever of nothing, shuffle or a huge skip of an
  //                     infinite stream
  static absl::StatusOr<Order> Make(std::span<const OrderStep> steps, uint64_t source_size,
                                    uint64_t seed,
                                    const std::function<uint64_t(uint64_t)>& epochs_begun);

  // Elements of one pass over the chain; kInfinite without end.
  uint64_t size() const { return size_; }
  // Turns places of the output, (epoch in which the pass begins, position in it), into places of
  // the source, (epoch, index). REQUIRES: every position < size().
  void Map(std::span<SampleId> elements) const;
  // The epoch of `position`, taking a shuffle as a whole: it begins with its first element.
  uint64_t EpochAt(uint64_t position, uint64_t epoch) const;
  // How often the source is begun for the first `consumed` elements of a pass.
  uint64_t EpochsBegun(uint64_t consumed) const;

 private:
  struct Step {
    OrderStep::Kind kind;
    uint64_t count;
    uint64_t inner_size;
    uint64_t inner_epochs;  // kRepeat: how often one whole inner pass begins the source
    uint64_t key;
  };
  Order() = default;
  absl::Status Append(const OrderStep& step);
  absl::Status AppendRepeat(const OrderStep& step);
  static void Undo(const Step& step, SampleId& element);
  void UndoShuffle(const Step& step, std::span<SampleId> elements) const;

  std::vector<Step> steps_;  // from the source outwards
  std::function<uint64_t(uint64_t)> epochs_begun_;
  uint64_t seed_ = 0;
  uint64_t size_ = 0;
};

// Where the rows of one global batch come from.
struct BatchPlace {
  uint64_t index = 0;           // of the global batch
  uint64_t pass_epoch = 0;      // epoch in which this pass over the record order begins
  uint64_t first_position = 0;  // of row 0 in that pass
  uint64_t valid_rows = 0;      // at most the batch size
  uint64_t epoch = 0;           // Batch::epoch
  bool ends_epoch = false;      // Batch::ends_epoch
};

// Order of records and of batches together. Immutable after Make, thread-safe.
class BatchOrder {
 public:
  //   INVALID_ARGUMENT  as Order::Make; or batch_size is 0
  static absl::StatusOr<BatchOrder> Make(const PhysicalPlan& plan, uint64_t num_records);

  // Batches of the whole stream; kInfinite without end.
  uint64_t num_batches() const { return batches_.size(); }
  StreamLength length() const;
  // REQUIRES: batch < num_batches() and batch * batch_size < kMaxCount.
  BatchPlace Place(uint64_t batch) const;
  // The samples of rows first_row, first_row + 1, ... of a batch. REQUIRES: they are valid rows.
  void Fill(const BatchPlace& place, uint64_t first_row, std::span<SampleId> ids) const;

 private:
  BatchOrder(Order records, Order batches, const PhysicalPlan& plan, uint64_t num_records);
  BatchPlace PlaceAlone(uint64_t batch) const;  // without ends_epoch

  Order records_;
  Order batches_;
  uint64_t batch_size_;
  uint64_t batches_per_epoch_ = 0;
};

// The rows of every global batch that one rank makes: [rank B / world, (rank + 1) B / world).
struct RankSlice {
  uint64_t first_row = 0;
  uint64_t num_rows = 0;     // of this rank
  uint64_t padded_rows = 0;  // of the largest slice: rows of every rank's tensors
};
// REQUIRES: 0 <= rank < world <= batch_size.
RankSlice SliceOfRank(uint64_t batch_size, int rank, int world);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_INTERNAL_H_
