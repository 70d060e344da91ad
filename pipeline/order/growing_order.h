#ifndef MILLRACE_PIPELINE_ORDER_GROWING_ORDER_H_
#define MILLRACE_PIPELINE_ORDER_GROWING_ORDER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/order/order.h"
#include "pipeline/plan/physical.h"

// A source that grows while it is read (push) has the order of a stream without end until it ends;
// then its size is known and the order is that of so many records. Both agree on every element that
// is known (ElementsKnown), and no other is asked for before the end. logical/check_order.cc says
// which stages may follow such a source: none that must see the end first or needs a record again.
// Elements are used mostly in their order, and records are freed one by one, when the last row that
// is made of them is delivered, or at once when no row is (LeftOut).

namespace millrace::pipeline {

// How many elements the order has for certain, and where from, of `records` records of a source
// that may go on. A shuffle's output is certain once the element that takes its place is there,
// since it would be another one if the stream ended before.
// REQUIRES: the steps are take, skip, shard and shuffle.
uint64_t ElementsKnown(std::span<const OrderStep> steps, uint64_t records);

// The fewest records of which the first `elements` elements are known.
// REQUIRES: as ElementsKnown; a take leaves so many.
uint64_t RecordsNeeded(std::span<const OrderStep> steps, uint64_t elements);

// Finds the records that no row of this rank will ever be made of: what skip and shard leave out of
// the order and, without a cut, the rows of other ranks (with one, a rank settles all lanes). What
// lies behind a take is not told: the stream ends with it. Thread-compatible.
class LeftOut {
 public:
  // Borrows the plan. `slice`: without a cut, the rows of each batch that the rank makes.
  static absl::StatusOr<LeftOut> Make(const PhysicalPlan& plan, const RankSlice& slice);

  // The records among the first `records` of which that is known, each in one call.
  std::vector<uint64_t> Advance(uint64_t records);

 private:
  // One place where elements are left out, of those that the steps before it give.
  struct Sieve {
    std::span<const OrderStep> before;
    std::optional<OrderStep> step;  // kSkip, kShard; none: the batch, of rows of other ranks
    Order order;                    // the order of `before`
    OrderMemo memo;
    uint64_t next = 0;  // element to look at
  };
  LeftOut(uint64_t batch_size, const RankSlice& slice) : batch_size_(batch_size), slice_(slice) {}
  absl::Status AddSieve(const PhysicalPlan& plan, size_t num_steps,
                        const std::optional<OrderStep>& step);
  bool Drops(const std::optional<OrderStep>& step, uint64_t element) const;

  uint64_t batch_size_;
  RankSlice slice_;
  std::vector<Sieve> sieves_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_GROWING_ORDER_H_
