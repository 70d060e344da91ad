#include <atomic>

#include "tests/pipeline/cut_plans.h"

// How rows are grouped into runs, which is a matter of their cost, changes nothing. The rules cited
// are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr int kRecords = 2200;

std::unique_ptr<Pipeline> OpenWithRuns(PhysicalPlan plan, int threads, int64_t rows_per_run) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(MakeFakeData(kRecords)));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), FakeContext(threads), {});
  EXPECT_TRUE(parts.ok()) << parts.status();
  parts->rows_per_run = rows_per_run;
  return *OpenParts(*std::move(parts), {});
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

}  // namespace
}  // namespace millrace::pipeline
