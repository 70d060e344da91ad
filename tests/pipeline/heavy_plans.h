#ifndef MILLRACE_TESTS_PIPELINE_HEAVY_PLANS_H_
#define MILLRACE_TESTS_PIPELINE_HEAVY_PLANS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/pipeline/cut_plans.h"

// Plans that take memory, and how much of it there may be.

namespace millrace::pipeline {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;

// What issue and README promise, in bytes.
inline int64_t PromisedBytes(int64_t budget, int64_t largest_run) {
  const int64_t whole = std::max(budget, largest_run);
  return whole + whole / 10 + 64 * kMiB;
}

inline int64_t MostReserved(const Context& context) {
  return const_cast<Context&>(context).metrics().gauge("millrace_memory_reserved_bytes").max();
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

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_HEAVY_PLANS_H_
