#ifndef MILLRACE_TESTS_PIPELINE_CUT_CUT_PLANS_H_
#define MILLRACE_TESTS_PIPELINE_CUT_CUT_PLANS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/stages/cut_ops.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Plans with a cut over made-up records, for the executor's tests.

namespace millrace::pipeline {

// "size": the payload's length, a scalar.
inline PhysicalOp SizeOp() {
  return MakeRowOp("size", "size", DType::kI64, [](Run& run, Column* output, int64_t row) {
    auto* out = static_cast<int64_t*>(run.Allocate(*output, row, {}));
    *out = static_cast<int64_t>(run.Get("record").bytes(row).size());
  });
}

// How many tokens a record has: 0 to 6, by what it holds.
inline int64_t NumTokens(std::string_view payload) {
  return static_cast<int64_t>(HashName(payload) % 7);
}

// "tokens": int64[n], token i of a record is 100 times its first digits plus i.
inline PhysicalOp TokensOp() {
  return MakeRowOp("tokens", "tokens", DType::kI64, [](Run& run, Column* output, int64_t row) {
    const std::string_view payload = run.Get("record").bytes(row);
    const int64_t count = NumTokens(payload);
    auto* out = static_cast<int64_t*>(run.Allocate(*output, row, {count}));
    for (int64_t i = 0; i < count; ++i) out[i] = 100 * static_cast<int64_t>(payload.size()) + i;
  });
}

inline void AddExamineOp(PhysicalPlan& plan, PhysicalOp op) {
  ExamineStep step;
  step.kind = ExamineStep::Kind::kOp;
  step.stage = op.stage;
  step.op = std::move(op);
  plan.cut->examine.push_back(std::move(step));
}

inline void AddFilter(PhysicalPlan& plan, std::string_view text) {
  ExamineStep step;
  step.kind = ExamineStep::Kind::kFilter;
  step.stage = "filter";
  auto predicate = Predicate::Parse(text);
  EXPECT_TRUE(predicate.ok()) << predicate.status();
  const Schema schema({{"record", DType::kBytes, {Shape::kUnknown}}, {"size", DType::kI64, {}}});
  EXPECT_TRUE(predicate->Resolve(schema).ok());
  step.filter = *std::move(predicate);
  plan.cut->examine.push_back(std::move(step));
  ++plan.cut->num_filters;
}

// Keeps records of 41, 43 and 44 bytes: three of five.
inline PhysicalPlan FilterPlan(uint64_t batch = 8, uint64_t lanes = 1,
                               std::vector<OrderStep> order = {}) {
  PhysicalPlan plan = MakePlan(batch, std::move(order));
  plan.lanes = lanes;
  plan.cut.emplace();
  AddExamineOp(plan, SizeOp());
  AddFilter(plan, "size in (41, 43, 44)");
  return plan;
}

inline bool FilterKeeps(std::string_view payload) {
  return payload.size() != 40 && payload.size() != 42;
}

// The same, with a shuffle of what is left.
inline PhysicalPlan ShuffledCutPlan(uint64_t batch = 8, uint64_t lanes = 8) {
  PhysicalPlan plan = FilterPlan(batch, lanes, {Step(OrderStep::Kind::kGlobalShuffle)});
  plan.batch_order = {Step(OrderStep::Kind::kRepeat, 2)};
  SettleStep shuffle;
  shuffle.kind = SettleStep::Kind::kShuffle;
  shuffle.count = 40;
  shuffle.after_filters = 1;
  shuffle.key = 99;
  shuffle.stage = "shuffle";
  plan.cut->settle.push_back(shuffle);
  return plan;
}

// Batches of tokens of each kind.
inline PhysicalPlan TokensPlan(BatchSpec::Kind kind, uint64_t lanes = 1) {
  PhysicalPlan plan = MakePlan(8);
  plan.lanes = lanes;
  plan.cut.emplace();
  AddExamineOp(plan, TokensOp());
  plan.cut->extents_of = {"tokens"};
  plan.ops.push_back(TokensOp());
  plan.ops.back().binds = {"tokens"};
  plan.batch_schema.Set({"tokens", DType::kI64, {Shape::kUnknown}});
  plan.batch.kind = kind;
  plan.batch.stage = "batch";
  plan.batch.padding.push_back({.field = "tokens", .int_value = -1, .float_value = 0});
  if (kind == BatchSpec::Kind::kBucket) {
    plan.batch.length_field = "tokens";
    plan.batch.boundaries = {2, 5};
    plan.batch.bucket_sizes = {16, 8, 8};
    plan.batch.size = 16;
  }
  return plan;
}

// Every token a sample of its own.
inline PhysicalPlan UnbatchPlan(uint64_t lanes = 1) {
  PhysicalPlan plan = MakePlan(8);
  plan.lanes = lanes;
  plan.cut.emplace();
  AddExamineOp(plan, TokensOp());
  ExamineStep step;
  step.kind = ExamineStep::Kind::kUnbatch;
  step.stage = "unbatch";
  step.split = {"tokens"};
  plan.cut->examine.push_back(std::move(step));
  plan.ops.push_back(TokensOp());
  PhysicalOp slice;
  slice.stage = "unbatch";
  slice.op = *MakeUnbatchSlice({"tokens"});
  const Schema whole({{"record", DType::kBytes, {Shape::kUnknown}},
                      {"hash", DType::kI64, {2}},
                      {"noise", DType::kF32, {3}},
                      {"tokens", DType::kI64, {Shape::kUnknown}}});
  EXPECT_TRUE(slice.op->Resolve(whole).ok());
  plan.ops.push_back(std::move(slice));
  plan.batch_schema.Set({"tokens", DType::kI64, {}});
  return plan;
}

struct NamedPlan {
  std::string name;
  std::function<PhysicalPlan()> make;
};

// Plans with 8 lanes, one for each kind of cut.
inline std::vector<NamedPlan> CutPlans() {
  using Kind = BatchSpec::Kind;
  return {{"filter", [] { return FilterPlan(16, 8); }},
          {"shuffle", [] { return ShuffledCutPlan(16, 8); }},
          {"padded", [] { return TokensPlan(Kind::kPadded, 8); }},
          {"ragged", [] { return TokensPlan(Kind::kRagged, 8); }},
          {"bucket", [] { return TokensPlan(Kind::kBucket, 8); }},
          {"unbatch", [] { return UnbatchPlan(8); }}};
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_CUT_CUT_PLANS_H_
