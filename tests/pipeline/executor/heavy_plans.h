#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_HEAVY_PLANS_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_HEAVY_PLANS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "tests/pipeline/cut/cut_plans.h"

// Plans that take memory, and how much of it there may be.

namespace millrace::pipeline {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBudget = 32 * kMiB;

// What issue and README promise, in bytes.
inline int64_t PromisedBytes(int64_t budget, int64_t largest_run) {
  const int64_t whole = std::max(budget, largest_run);
  return whole + whole / 10 + 64 * kMiB;
}

inline int64_t MostReserved(const Context& context) {
  return const_cast<Context&>(context).metrics().gauge(metric::kMemoryReserved).max();
}

// "big": `bytes` bytes, all equal, by the record's number; written into the slab.
inline PhysicalOp BigOp(int64_t bytes) {
  return MakeRowOp("big", "big", DType::kU8,
                   [bytes](Run& run, Column* output, int64_t row) {
                     void* const out = run.Allocate(*output, row, {bytes});
                     std::memset(out, static_cast<int>(run.id(row).record % 251),
                                 static_cast<size_t>(bytes));
                   },
                   {"big"});
}

// Uses `bytes` of the worker's memory for each row and stores none of them.
inline PhysicalOp ScratchOp(int64_t bytes) {
  return MakeRowOp(
      "scratch", "scratch", DType::kU8, [bytes](Run& run, Column* output, int64_t row) {
        std::memset(run.Allocate(*output, row, {bytes}), 1, static_cast<size_t>(bytes));
      });
}

// Batches of `batch` rows of `row_bytes`, up to `prefetch` of them at once.
inline PhysicalPlan HeavyPlan(uint64_t batch, int64_t row_bytes, int prefetch) {
  PhysicalPlan plan = MakePlan(batch);
  plan.ops.push_back(BigOp(row_bytes));
  plan.batch_schema.Set({"big", DType::kU8, {row_bytes}});
  plan.prefetch_batches = prefetch;
  return plan;
}

// Makes the plan one that keeps records longer than `bytes`; pass 1 has to read all of them.
inline PhysicalPlan Filtered(PhysicalPlan plan, uint64_t lanes, size_t bytes) {
  plan.lanes = lanes;
  plan.cut.emplace();
  AddExamineOp(plan, SizeOp());
  AddFilter(plan, absl::StrCat("size > ", bytes));
  return plan;
}

// Padded batches whose slabs differ: row r is 64 KiB times a number from 1 to 16, by the record.
inline PhysicalPlan UnevenPlan(uint64_t batch, int prefetch) {
  // Values of any size may be made of it, for nobody looks at them.
  static constexpr int64_t kStep = 256 * kKiB;
  const auto bytes_of = [batch](uint64_t record) {
    return kStep * static_cast<int64_t>(1 + record / batch * 7 % 16);
  };
  PhysicalPlan plan = MakePlan(batch);
  plan.prefetch_batches = prefetch;
  plan.cut.emplace();
  const auto zeros = std::make_shared<const std::string>(static_cast<size_t>(16 * kStep), '\0');
  const RowOp::Body wide = [bytes_of, zeros](Run& run, Column* output, int64_t row) {
    output->Set(row, zeros->data(), {bytes_of(run.id(row).record)});
  };
  AddExamineOp(plan, MakeRowOp("wide", "wide", DType::kU8, wide));
  plan.cut->extents_of = {"wide"};
  plan.ops.push_back(MakeRowOp("wide", "wide", DType::kU8, wide));
  plan.batch_schema.Set({"wide", DType::kU8, {Shape::kUnknown}});
  plan.batch.kind = BatchSpec::Kind::kPadded;
  plan.batch.stage = "batch";
  return plan;
}

// Makes the plan one of the numbers below `count` (OpenRange).
inline PhysicalPlan OfNumbers(PhysicalPlan plan, uint64_t count) {
  SourceSpec range;
  range.kind = SourceSpec::Kind::kRange;
  range.stage = "range";
  range.count = count;
  plan.sources = {range};
  plan.ops.erase(plan.ops.begin(), plan.ops.begin() + 2);  // those of MakePlan look at records
  plan.batch_schema = Schema({{"big", DType::kU8, plan.batch_schema.Find("big")->shape}});
  return plan;
}

// Makes the plan one that keeps all numbers and shuffles them behind the filter.
inline PhysicalPlan ShuffledBehindAFilter(PhysicalPlan plan, uint64_t buffer) {
  plan.cut.emplace();
  ExamineStep step;
  step.kind = ExamineStep::Kind::kFilter;
  step.stage = "filter";
  step.filter = *Predicate::Parse("value >= 0");
  EXPECT_TRUE(step.filter->Resolve(Schema({{"value", DType::kI64, {}}})).ok());
  plan.cut->examine.push_back(std::move(step));
  plan.cut->num_filters = 1;
  SettleStep shuffle;
  shuffle.kind = SettleStep::Kind::kShuffle;
  shuffle.count = buffer;
  shuffle.after_filters = 1;
  shuffle.stage = "shuffle";
  plan.cut->settle.push_back(shuffle);
  return plan;
}

inline OpenedSources OpenRange(const PhysicalPlan& plan) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(MakeRangeSource(plan.sources[0].count));
  return JoinSources(plan, std::move(sources));
}

// Takes all batches, one at a time, and returns how many there were.
inline int64_t CountBatches(Pipeline& pipeline) {
  int64_t batches = 0;
  while (true) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return batches;
    ++batches;
  }
}

// The same with every batch held until the next is refused; then the oldest is dropped.
inline int64_t CountBatchesHeld(Pipeline& pipeline, const Context& context) {
  std::vector<Batch> held;
  int64_t batches = 0;
  int refusals = 0;
  while (true) {
    auto batch = pipeline.Next();
    if (IsRetryable(batch.status())) {
      ++refusals;
      // Nothing else may be to blame: what is held leaves no room for one more.
      const MemoryBudget& budget = *context.memory_budget();
      EXPECT_GT(budget.held_bytes(), budget.work_limit_bytes() - 9 * kMiB);
      if (held.empty()) break;
      held.erase(held.begin());
      continue;
    }
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    EXPECT_EQ((*batch)->index(), static_cast<uint64_t>(batches++));
    held.push_back(**batch);
  }
  EXPECT_GT(refusals, batches / 2);
  return batches;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_HEAVY_PLANS_H_
