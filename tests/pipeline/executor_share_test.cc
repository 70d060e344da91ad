#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "tests/pipeline/cut_plans.h"

// Pipelines on one context: what each gets of the workers, in units of work that are all alike.

namespace millrace::pipeline {
namespace {

// Work of about 20 us, the same for every row.
uint32_t WorkUnit(uint64_t record) {
  RandomStream random(RandomKey{.seed = 1, .op = 2, .epoch = 0, .record = record});
  uint32_t sum = 0;
  for (int i = 0; i < 4000; ++i) sum += random.NextU32();
  return sum;
}

// Endless streams of work units, each with a consumer that takes every batch at once.
class Contest {
 public:
  // `cut[i]`: pipeline i looks at its records in pass 1.
  Contest(int threads, const std::vector<bool>& cut) : counts_(cut.size()) {
    const auto context = FakeContext(threads);
    for (size_t i = 0; i < cut.size(); ++i) {
      PhysicalPlan plan = MakePlan(16, {Step(OrderStep::Kind::kRepeat, 0)});
      plan.prefetch_batches = 4;
      if (cut[i]) {
        plan.cut.emplace();
        AddExamineOp(plan, SizeOp());
        AddFilter(plan, "size > 0");
      }
      plan.ops.push_back(CheckOp([this, i](uint64_t record) {
        sink_.fetch_add(WorkUnit(record), std::memory_order_relaxed);
        counts_[i].fetch_add(1, std::memory_order_relaxed);
        return true;
      }));
      pipelines_.push_back(OpenFake(std::move(plan), MakeFakeData(64), context));
    }
  }

  // Units that each pipeline did, from when all are under way, until `total` are done.
  std::vector<int64_t> Run(int64_t total) {
    std::atomic<bool> stop{false};  // this thread -> consumers
    std::vector<std::thread> consumers;
    for (const auto& pipeline : pipelines_) {
      consumers.emplace_back([&stop, &pipeline] {
        while (!stop) EXPECT_TRUE(pipeline->Next().ok());
      });
    }
    while (std::ranges::any_of(counts_, [](const auto& count) { return count < 200; })) {
      std::this_thread::yield();
    }
    const std::vector<int64_t> begin(counts_.begin(), counts_.end());
    const int64_t goal = std::accumulate(begin.begin(), begin.end(), total);
    while (std::accumulate(counts_.begin(), counts_.end(), int64_t{0}) < goal) {
      std::this_thread::yield();
    }
    std::vector<int64_t> done(counts_.begin(), counts_.end());
    stop = true;
    for (std::thread& consumer : consumers) consumer.join();
    for (size_t i = 0; i < done.size(); ++i) done[i] -= begin[i];
    return done;
  }

 private:
  std::vector<std::atomic<int64_t>> counts_;  // workers -> Run, relaxed: counts
  std::atomic<uint32_t> sink_{0};             // keeps the work from being left out
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
};

void ExpectEqualShares(const std::vector<int64_t>& done) {
  const double sum = static_cast<double>(std::accumulate(done.begin(), done.end(), int64_t{0}));
  const double share = sum / static_cast<double>(done.size());
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(done[i]), share, 0.2 * share) << "pipeline " << i;
  }
}

TEST(ExecutorShareTest, TwoEqualPipelinesGetEqualShares) {
  for (const int threads : {1, 2, 4}) {
    SCOPED_TRACE(threads);
    ExpectEqualShares(Contest(threads, {false, false}).Run(20'000));
  }
}

TEST(ExecutorShareTest, ThreePipelinesGetAThirdEach) {
  ExpectEqualShares(Contest(2, {false, false, false}).Run(20'000));
}

TEST(ExecutorShareTest, APipelineWithACutGetsItsShareToo) {
  ExpectEqualShares(Contest(2, {false, true}).Run(20'000));
}

}  // namespace
}  // namespace millrace::pipeline
