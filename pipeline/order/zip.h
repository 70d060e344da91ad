#ifndef MILLRACE_PIPELINE_ORDER_ZIP_H_
#define MILLRACE_PIPELINE_ORDER_ZIP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/run.h"
#include "pipeline/order/order.h"
#include "pipeline/plan/physical.h"

// Samples that are made of one record of each input (docs/semantics.md, S-ZIP).
//
// To the order, the settler and everything else that names samples, a zip is one source: element i
// of epoch e. Which records these are is arithmetic too, element i of the pass that each input
// makes in that epoch, and only a run that is about to be read asks for them. So nothing in front
// of a run knows that a sample may lie in several places.

namespace millrace::pipeline {

// Thread-safe.
class Zip {
 public:
  ~Zip();
  // `sources`: of the inputs' orders, all of the plan. The slots of shuffles stand in `budget`, if
  // there is one.
  //   INVALID_ARGUMENT  as Order::Make, of an input
  static absl::StatusOr<std::unique_ptr<const Zip>> Make(const ZipPlan& plan,
                                                         std::span<const OrderSource> sources,
                                                         uint64_t seed,
                                                         std::shared_ptr<MemoryBudget> budget);

  // Elements of a pass: as many as the shortest input has; kInfinite when none ends.
  uint64_t size() const { return facts_.num_records; }
  size_t num_inputs() const { return inputs_.size(); }
  // The facts that the order behind it has to know.
  const OrderSource& facts() const { return facts_; }

  // The records of samples, input after input: sample i's of input j is records[j * n + i], n being
  // the number of samples. Keeps the memos of as many orders as there were calls at once: 4 bytes
  // for each slot of a shuffle's buffer.
  // Of one input, both may be the same memory.
  // REQUIRES: every samples[i].record < size(), records.size() == n * num_inputs().
  void Locate(std::span<const SampleId> samples, std::span<SampleId> records) const
      MILLRACE_EXCLUDES(mu_);

 private:
  struct Input {
    Order order;
    uint64_t epochs;  // between two passes
  };
  class Memo;

  Zip(std::vector<Input> inputs, OrderSource facts, std::shared_ptr<MemoryBudget> budget);
  int64_t MemoBytes() const;
  std::unique_ptr<Memo> TakeMemo(const SampleId& first) const MILLRACE_EXCLUDES(mu_);

  const std::vector<Input> inputs_;
  const OrderSource facts_;
  const std::shared_ptr<MemoryBudget> budget_;
  mutable Mutex mu_;
  mutable std::vector<std::unique_ptr<Memo>> idle_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_ZIP_H_
