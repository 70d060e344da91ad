#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_FAKE_OPS_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_FAKE_OPS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/op.h"
#include "base/philox.h"
#include "pipeline/plan/physical.h"

namespace millrace::pipeline {

// An op that calls a function on each row that is ok.
class RowOp final : public Op {
 public:
  using Body = std::function<void(Run& run, Column* output, int64_t row)>;
  // `output` names the column that the body fills; empty for none.
  RowOp(std::string output, DType dtype, Body body)
      : output_(std::move(output)), dtype_(dtype), body_(std::move(body)) {}
  absl::StatusOr<Schema> Resolve(const Schema& input) override { return input; }
  void Apply(Run& run) const override {
    Column* column = output_.empty() ? nullptr : &run.Add(output_, dtype_);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (run.ok(row)) body_(run, column, row);
    }
  }

 private:
  const std::string output_;
  const DType dtype_;
  const Body body_;
};

inline PhysicalOp MakeRowOp(std::string stage, std::string output, DType dtype, RowOp::Body body,
                            std::vector<std::string> binds = {}) {
  PhysicalOp op;
  op.stage = std::move(stage);
  op.op = std::make_unique<RowOp>(std::move(output), dtype, std::move(body));
  op.binds = std::move(binds);
  return op;
}

// "hash": int64[2] from the payload, stored into the slab when bound.
inline PhysicalOp HashOp(bool bind) {
  return MakeRowOp(
      "hash", "hash", DType::kI64,
      [](Run& run, Column* output, int64_t row) {
        auto* out = static_cast<int64_t*>(run.Allocate(*output, row, {2}));
        out[0] = static_cast<int64_t>(HashName(run.Get("record").bytes(row)));
        out[1] = static_cast<int64_t>(run.Get("record").bytes(row).size());
      },
      bind ? std::vector<std::string>{"hash"} : std::vector<std::string>{});
}

// "noise": float32[3] of random words.
inline PhysicalOp NoiseOp() {
  return MakeRowOp("noise", "noise", DType::kF32, [](Run& run, Column* output, int64_t row) {
    RandomStream random = run.Random(row, HashName("noise"));
    auto* out = static_cast<float*>(run.Allocate(*output, row, {3}));
    for (int i = 0; i < 3; ++i) out[i] = random.NextFloat();
  });
}

// Calls `hook` with the record's number and fails the row when it returns false.
inline PhysicalOp CheckOp(std::function<bool(uint64_t record)> hook) {
  return MakeRowOp("check", "", DType::kU8, [hook](Run& run, Column*, int64_t row) {
    if (!hook(run.id(row).record)) run.Fail(row, absl::InvalidArgumentError("unwanted"));
  });
}

inline OrderStep Step(OrderStep::Kind kind, uint64_t count = 0) {
  OrderStep step;
  step.kind = kind;
  step.count = count;
  step.key = HashName("shuffle");
  step.stage = "step";
  return step;
}

inline PhysicalPlan MakePlan(uint64_t batch_size, std::vector<OrderStep> order = {}) {
  PhysicalPlan plan;
  plan.seed = 7;
  plan.order.steps = std::move(order);
  plan.batch.size = batch_size;
  plan.plan_fingerprint = 0xABCD;
  plan.ops.push_back(HashOp(/*bind=*/true));
  plan.ops.push_back(NoiseOp());
  plan.batch_schema = Schema({{"hash", DType::kI64, {2}}, {"noise", DType::kF32, {3}}});
  return plan;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_FAKE_OPS_H_
