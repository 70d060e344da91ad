#include <atomic>

#include "base/metric_table.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/sanitized.h"

// How rows are grouped into runs, which is a matter of their cost, changes nothing. The rules cited
// are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr int kRecords = 2200;

ExecutorParts PartsWithRuns(PhysicalPlan plan, std::unique_ptr<readers::RecordSource> source,
                            std::shared_ptr<Context> context, int64_t rows_per_run) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::move(source));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), std::move(context), {});
  EXPECT_TRUE(parts.ok()) << parts.status();
  parts->rows_per_run = rows_per_run;
  return *std::move(parts);
}

std::unique_ptr<Pipeline> OpenWithRuns(PhysicalPlan plan, int threads, int64_t rows_per_run) {
  auto source = std::make_unique<FakeSource>(MakeFakeData(kRecords));
  return *OpenParts(
      PartsWithRuns(std::move(plan), std::move(source), FakeContext(threads), rows_per_run), {});
}

// Tells how many rows the largest run had.
PhysicalOp WatchOp(std::atomic<int64_t>* most) {
  class Watch final : public Op {
   public:
    explicit Watch(std::atomic<int64_t>* most) : most_(most) {}
    absl::StatusOr<Schema> Resolve(const Schema& input) override { return input; }
    void Apply(Run& run) const override {
      int64_t seen = most_->load();
      while (seen < run.num_rows() && !most_->compare_exchange_weak(seen, run.num_rows())) {
      }
    }

   private:
    std::atomic<int64_t>* const most_;
  };
  PhysicalOp op;
  op.stage = "watch";
  op.op = std::make_unique<Watch>(most);
  return op;
}

// S-RANDOM-2, S-STATE-1.
TEST(ExecutorRunTest, BitsAndTokensAreTheSameForRunsOfEverySize) {
  std::vector<NamedPlan> plans = CutPlans();
  plans.push_back({"shuffled", [] {
                     return MakePlan(48, {Step(OrderStep::Kind::kGlobalShuffle),
                                          Step(OrderStep::Kind::kShuffle, 100)});
                   }});
  plans.push_back({"in order", [] { return MakePlan(2048); }});
  for (const NamedPlan& plan : plans) {
    const Stream expected = Drain(*OpenWithRuns(plan.make(), 2, 0));
    EXPECT_TRUE(expected.end.ok()) << expected.end;
    for (const int64_t rows : {1, 7, 1024}) {
      for (const int threads : {1, 8}) {
        if (TakesFewSettings() && (threads == 1) != (rows == 7)) continue;
        const Stream stream = Drain(*OpenWithRuns(plan.make(), threads, rows));
        EXPECT_TRUE(stream.end.ok()) << stream.end;
        EXPECT_EQ(stream.digests, expected.digests) << plan.name << ", runs of " << rows;
        EXPECT_EQ(stream.tokens, expected.tokens) << plan.name << ", runs of " << rows;
      }
    }
  }
}

// Otherwise the case above proves nothing.
TEST(ExecutorRunTest, RunsHaveTheRowsThatThePartsSay) {
  for (const int64_t rows : {1, 7, 1024}) {
    std::atomic<int64_t> most{0};
    PhysicalPlan plan = MakePlan(2048);
    plan.ops.push_back(WatchOp(&most));
    EXPECT_EQ(Drain(*OpenWithRuns(std::move(plan), 4, rows)).digests.size(), 2u);
    EXPECT_EQ(most.load(), rows);
  }
}

// A worker reads the clock three times for an item that works on runs. Numbers are not waited for.
TEST(ExecutorRunTest, AWorkerTakesSeveralShortRunsAtOnce) {
  std::atomic<int64_t> readings{0};
  PhysicalPlan plan;
  plan.sources.emplace_back().kind = SourceSpec::Kind::kRange;
  plan.batch.size = 1100;
  plan.batch_schema = Schema({{"value", DType::kI64, {}}});
  ExecutorParts parts =
      PartsWithRuns(std::move(plan), MakeRangeSource(kRecords), FakeContext(1), 1);
  parts.clock = [&] {
    ++readings;
    return int64_t{0};
  };
  EXPECT_EQ(Drain(**OpenParts(std::move(parts), {})).digests.size(), 2u);
  EXPECT_LT(readings, kRecords);
}

// S-ERROR-1.
TEST(ExecutorRunTest, RunsThatAreTakenAtOnceHaveTheirOwnErrors) {
  PhysicalPlan plan = MakePlan(1024);
  plan.ops.push_back(
      CheckOp([](uint64_t record) { return record != 80 && record != 71 && record != 72; }));
  const auto context = FakeContext(1);
  auto source = std::make_unique<FakeSource>(MakeFakeData(kRecords));
  const auto pipeline =
      *OpenParts(PartsWithRuns(std::move(plan), std::move(source), context, 1), {});
  const auto error = GetRecordError(pipeline->Next().status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->position, 71);
  EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 3);
}

}  // namespace
}  // namespace millrace::pipeline
