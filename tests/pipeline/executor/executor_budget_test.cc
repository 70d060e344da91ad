#include <string>
#include <thread>

#include "tests/pipeline/executor/heavy_plans.h"
#include "tests/pipeline/source/push_fixture.h"

// How much memory a pipeline takes by its own count; executor_rss_test.cc asks the system.

namespace millrace::pipeline {
namespace {

using Code = absl::StatusCode;

constexpr int64_t kArena = 256 * kKiB;  // the least that a worker's arena has

TEST(ExecutorBudgetTest, AnUnlimitedPlanWouldTakeTenTimesTheBudget) {
  const auto context = FakeContext(4);
  const auto pipeline = OpenFake(HeavyPlan(8, kMiB, 48), MakeFakeData(8 * 60), context);
  while (MostReserved(*context) < 10 * kBudget) std::this_thread::yield();
  EXPECT_TRUE(pipeline->Next().ok());
}

TEST(ExecutorBudgetTest, ItStaysWithinTheBudgetWhenItIsConsumed) {
  const auto context = FakeContext(4, kBudget);
  const auto pipeline = OpenFake(HeavyPlan(8, kMiB, 48), MakeFakeData(8 * 60), context);
  EXPECT_EQ(CountBatches(*pipeline), 60);
  EXPECT_LE(MostReserved(*context), kBudget + 4 * kArena + 256 * kKiB);
}

TEST(ExecutorBudgetTest, ItStaysWithinTheBudgetWhileItsConsumerStalls) {
  const auto context = FakeContext(4, kBudget);
  const FakeData data = MakeFakeData(8 * 60);
  const auto stalled = OpenFake(HeavyPlan(8, kMiB, 48), data, context);
  ASSERT_TRUE(stalled->Next().ok());
  // Meanwhile others come to their end.
  EXPECT_EQ(CountBatches(*OpenFake(HeavyPlan(8, kMiB, 48), data, context)), 60);
  EXPECT_EQ(CountBatches(*OpenFake(Filtered(HeavyPlan(8, kMiB, 48), 8, 41), data, context)), 36);
  EXPECT_EQ(CountBatches(*stalled), 59);
  // The oldest batch of the second pipeline may have gone over the limit, and a run of each pass.
  EXPECT_LE(MostReserved(*context), kBudget + 9 * kMiB + 4 * kArena + 2 * 256 * kKiB);
}

// S-ERROR-4.
TEST(ExecutorBudgetTest, HeldBatchesAloneAreResourceExhaustedAndStayWithinTheBudget) {
  for (const bool cut : {false, true}) {
    const auto context = FakeContext(4, kBudget);
    PhysicalPlan plan = HeavyPlan(8, kMiB, 48);
    if (cut) plan = Filtered(std::move(plan), 8, 0);
    const auto pipeline = OpenFake(std::move(plan), MakeFakeData(8 * 20), context);
    EXPECT_EQ(CountBatchesHeld(*pipeline, *context), 20);
    EXPECT_LE(MostReserved(*context), kBudget + 4 * kArena + 2 * 256 * kKiB) << cut;
  }
}

TEST(ExecutorBudgetTest, TheSlabsOfAnotherPipelineAreNoReasonToRefuse) {
  const auto context = FakeContext(2, 4 * kMiB);
  const FakeData data = MakeFakeData(40);
  const auto other = OpenFake(HeavyPlan(4, kMiB, 8), data, context);
  // It takes all there is, but nobody holds it.
  EXPECT_EQ(CountBatches(*OpenFake(HeavyPlan(4, kMiB, 8), data, context)), 10);
  EXPECT_EQ(CountBatches(*other), 10);
}

TEST(ExecutorBudgetTest, ARecordLargerThanTheBudgetIsReadAlone) {
  constexpr int64_t kRecord = 3 * kMiB;
  FakeData data = MakeFakeData(60, 10 << 10);
  for (const size_t large : {5, 6, 33}) data.payloads[large].resize(kRecord, 'x');
  for (const bool cut : {false, true}) {
    const auto make = [&] { return cut ? Filtered(MakePlan(4), 4, 10 << 10) : MakePlan(4); };
    const Stream roomy = Drain(*OpenFake(make(), data, FakeContext(1)));
    const auto context = FakeContext(4, 64 * kKiB);
    const Stream stream = Drain(*OpenFake(make(), data, context));
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    EXPECT_EQ(stream.digests, roomy.digests);
    // One run over the limit, of either pass; the large record may stand behind a run's small ones.
    EXPECT_LE(MostReserved(*context), 64 * kKiB + kRecord + 256 * kKiB + 4 * kArena + 4 * kKiB);
  }
}

TEST(ExecutorBudgetTest, BothPassesOfACutShareTheBudget) {
  const FakeData data = MakeFakeData(400, 60 << 10);  // 24 MiB
  const auto make = [] {
    PhysicalPlan plan = Filtered(HeavyPlan(16, 16 * kKiB, 64), 8, 60 << 10);
    plan.batch_order = {Step(OrderStep::Kind::kRepeat, 2)};
    return plan;
  };
  const Stream roomy = Drain(*OpenFake(make(), data, FakeContext(1)));
  for (const int64_t budget : {kMiB, 2 * kMiB}) {
    const auto context = FakeContext(4, budget);
    const Stream stream = Drain(*OpenFake(make(), data, context));
    EXPECT_EQ(stream.digests, roomy.digests);
    EXPECT_LE(MostReserved(*context), budget + 2 * 320 * kKiB + 4 * kArena);
  }
}

TEST(ExecutorBudgetTest, ArenasThatGrewForOneRecordAreGivenBack) {
  constexpr int64_t kLimit = 4 * kMiB;
  const auto context = FakeContext(4, kLimit);
  PhysicalPlan plan = MakePlan(1);
  plan.prefetch_batches = 4;
  plan.ops.push_back(MakeRowOp("scratch", "scratch", DType::kU8,
                               [](millrace::Run& run, Column* output, int64_t row) {
                                 const bool large = run.id(row).record < 8;
                                 run.Allocate(*output, row, {large ? 8 * kMiB : 1});
                               }));
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(200), context);
  EXPECT_EQ(CountBatches(*pipeline), 200);
  // Otherwise everything would be over the budget from here on, and go one by one.
  EXPECT_LT(context->memory_budget()->reserved_bytes(), kLimit);
}

TEST(ExecutorBudgetTest, WhatStandsIsCountedFromOpenToEnd) {
  const auto context = FakeContext(2, kBudget);
  const MemoryBudget& budget = *context->memory_budget();
  FakeData data = MakeFakeData(60);
  data.memory_bytes = 1000;
  auto plain = OpenFake(MakePlan(4), data, context);
  EXPECT_EQ(budget.standing_bytes(), 1000);
  // docs/executor.md, Buffers: 4 bytes a slot of the order; behind a cut 48 a row that is open and
  // three times 12 for it in states, and 48 for those of five batches.
  auto shuffled = OpenFake(MakePlan(4, {Step(OrderStep::Kind::kShuffle, 20)}), data, context);
  EXPECT_EQ(budget.standing_bytes(), 2 * 1000 + 4 * 20);
  auto cut = OpenFake(ShuffledCutPlan(), data, context);  // 40 rows
  EXPECT_EQ(budget.standing_bytes(), 3 * 1000 + 4 * 20 + (48 + 36) * 40 + 5 * 48 * 8);
  for (auto* pipeline : {&plain, &shuffled, &cut}) {
    EXPECT_GT(CountBatches(**pipeline), 0);
    pipeline->reset();
  }
  EXPECT_EQ(budget.reserved_bytes(), 0);
}

// A rank that counts the rows of others walks their order for the epochs, with slots of its own.
TEST(ExecutorBudgetTest, WhatTellsEpochsOfRowsThatAreCountedStands) {
  PhysicalPlan plans[2] = {TokensPlan(BatchSpec::Kind::kPadded),
                           TokensPlan(BatchSpec::Kind::kPadded)};
  int64_t standing[2] = {};
  for (const int rank : {0, 1}) {
    plans[rank].order.steps.push_back(Step(OrderStep::Kind::kShuffle, 20));
    const auto context = FakeContext(2, kBudget);
    const auto pipeline =
        OpenFake(std::move(plans[rank]), MakeFakeData(60), context, RankOptions(rank, 2));
    standing[rank] = context->memory_budget()->standing_bytes();
  }
  EXPECT_EQ(standing[1], standing[0] + 4 * 20);
}

TEST(ExecutorBudgetTest, RecordsThatMayBePushedStand) {
  const auto context = FakeContext(2, kBudget);
  const auto push = PushSource::Make({.max_bytes = 5000});
  const auto pipeline = OpenPushed(MakePlan(4), push, context);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ(context->memory_budget()->standing_bytes(), 5000);
}

TEST(ExecutorBudgetTest, WorkHasWhatStandingMemoryLeaves) {
  for (const bool held : {false, true}) {
    const auto context = FakeContext(4, kBudget);
    FakeData data = MakeFakeData(8 * 60);
    data.memory_bytes = kBudget / 2;
    const auto pipeline = OpenFake(HeavyPlan(8, kMiB / 2, 48), data, context);
    EXPECT_EQ(held ? CountBatchesHeld(*pipeline, *context) : CountBatches(*pipeline), 60);
    EXPECT_LE(MostReserved(*context), kBudget + 4 * kArena + 256 * kKiB) << held;
  }
}

TEST(ExecutorBudgetTest, StandingMemoryOverTheBudgetIsSaidAndStopsNothing) {
  std::vector<std::string> log;
  ContextOptions options;
  options.threads = 4;
  options.memory_budget_bytes = kBudget;
  options.io = std::make_shared<FakeIo>();
  options.log = KeepWarnings(log);
  const auto context = *Context::Make(std::move(options));
  FakeData data = MakeFakeData(8 * 20);
  data.memory_bytes = 2 * kBudget;
  const auto pipeline = OpenFake(HeavyPlan(8, kMiB, 48), data, context);
  EXPECT_THAT(log, testing::ElementsAre(testing::HasSubstr("raise memory_budget_bytes")));
  EXPECT_EQ(CountBatches(*pipeline), 20);
  // The oldest batch's slab and a run go over the limit.
  EXPECT_LE(MostReserved(*context), 2 * kBudget + 9 * kMiB + 4 * kArena + 256 * kKiB);
}

TEST(ExecutorBudgetTest, TokensOfACutAreCountedWithTheirBatches) {
  const auto context = FakeContext(2, kBudget);
  constexpr uint64_t kRows = 1 << 12;
  PhysicalPlan plan =
      ShuffledBehindAFilter(OfNumbers(HeavyPlan(kRows, 1, 4), 12 * kRows), 8 * kRows);
  OpenedSources opened = OpenRange(plan);
  const auto pipeline = *OpenPhysical(std::move(plan), std::move(opened), context, {});
  std::vector<Batch> held;
  int64_t bytes = 0;
  for (int i = 0; i < 10; ++i) {
    held.push_back(**pipeline->Next());
    bytes += static_cast<int64_t>(kRows + held.back().resume_token().size());
  }
  EXPECT_GT(static_cast<int64_t>(held.back().resume_token().size()), 8 * kRows);
  // Ids and valid bytes of rows are beside the tensors; a hundred bytes of a token are not counted.
  EXPECT_NEAR(context->memory_budget()->held_bytes(), bytes + 10 * 25 * kRows, 10 * 200);
}

TEST(ExecutorBudgetTest, ABatchThatIsTooLargeGivesBackWhatItTook) {
  const auto context = FakeContext(2);
  PhysicalPlan plan = UnevenPlan(4, 2);
  const RowOp::Body huge = [](millrace::Run&, Column* output, int64_t row) {
    static const char byte = 0;
    output->Set(row, &byte, {int64_t{1} << 50});
  };
  plan.cut->examine[0].op = MakeRowOp("wide", "wide", DType::kU8, huge);
  auto pipeline = OpenFake(std::move(plan), MakeFakeData(8), context);
  EXPECT_EQ(pipeline->Next().status().code(), Code::kInvalidArgument);
  pipeline.reset();
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
}

}  // namespace
}  // namespace millrace::pipeline
