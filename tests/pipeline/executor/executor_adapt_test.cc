#include <atomic>
#include <latch>
#include <optional>
#include <random>
#include <thread>

#include "base/metric_table.h"
#include "pipeline/executor/executor.h"
#include "tests/pipeline/cut/cut_plans.h"

// Threads and ring that change while a stream runs: by hand at random, and by the adapter under a
// clock that the test moves.

namespace millrace::pipeline {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1000 * kMillisecond;
constexpr int kThreads = 4;
constexpr int kRing = 6;
constexpr int64_t kBatch = 8;

ExecutorParts PartsOf(PhysicalPlan plan, const FakeData& data, std::shared_ptr<Context> context,
                      const OpenOptions& options = {}) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(data));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), std::move(context), options);
  EXPECT_TRUE(parts.ok()) << parts.status();
  return *std::move(parts);
}

std::vector<uint64_t> DigestsOf(Executor& executor) {
  std::vector<uint64_t> digests;
  while (true) {
    auto batch = executor.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return digests;
    StreamDigest digest;
    digest.Add(**batch);
    digests.push_back(digest.value());
  }
}

// S-RANDOM-2.
TEST(ExecutorAdaptTest, BitsDoNotChangeWhileTargetsMoveAtRandom) {
  const FakeData data = MakeFakeData(400);
  std::vector<NamedPlan> plans = CutPlans();
  plans.push_back({"arithmetic", [] {
                     return MakePlan(16, {Step(OrderStep::Kind::kGlobalShuffle),
                                          Step(OrderStep::Kind::kRepeat, 3)});
                   }});
  for (const NamedPlan& plan : plans) {
    SCOPED_TRACE(plan.name);
    const Stream expected = Drain(*OpenFake(plan.make(), data, FakeContext(1)));
    for (uint32_t round = 0; round < 4; ++round) {
      OpenOptions options;
      options.prefetch_batches = 8;
      Executor executor(PartsOf(plan.make(), data, FakeContext(8), options));
      ASSERT_TRUE(executor.Start({}).ok());
      std::atomic<bool> stop{false};
      std::thread mover([&] {
        std::mt19937 random(round);
        while (!stop) {
          executor.SetThreadLimit(static_cast<int>(random() % 10));
          if (round % 2 == 0) continue;
          executor.SetGoals(static_cast<int>(random() % 10), static_cast<int>(random() % 10));
          std::this_thread::yield();
        }
      });
      EXPECT_EQ(DigestsOf(executor), expected.digests);
      stop = true;
      mover.join();
    }
  }
}

// With it no item counts as short, however little it takes, and the ring is filled without delay.
class NoBatchOp final : public BatchOp {
 public:
  absl::StatusOr<Schema> Resolve(const Schema& schema) override { return schema; }
  absl::Status Apply(BatchView&) const override { return absl::OkStatus(); }
};

// A stream under a clock of its own. Work takes time only while `work_takes_time`, a millisecond a
// row, and then only while the consumer is in Next; otherwise only Pause takes time.
class Simulation {
 public:
  explicit Simulation(const OpenOptions& options) : context_(FakeContext(kThreads)) {
    PhysicalPlan plan = MakePlan(kBatch, {Step(OrderStep::Kind::kRepeat, 0)});
    plan.prefetch_batches = kRing;
    plan.ops.push_back(CheckOp([this](uint64_t) {
      Work();
      return true;
    }));
    ExecutorParts parts = PartsOf(std::move(plan), MakeFakeData(32), context_, options);
    parts.rows_per_run = 1;
    parts.plan.batch_ops.emplace_back();
    parts.batch_ops.push_back(std::make_unique<NoBatchOp>());
    parts.clock = [this] { return now_.load(); };
    executor_ = std::make_unique<Executor>(std::move(parts));
    EXPECT_TRUE(executor_->Start({}).ok());
  }
  ~Simulation() {
    work_takes_time = false;
    executor_.reset();
  }

  void Next() {
    in_next_ = true;
    EXPECT_TRUE(executor_->Next().ok());
    in_next_ = false;
    ++taken_;
  }
  void WaitUntilFull() {
    while (rows_ < (taken_ + ring()) * kBatch) std::this_thread::yield();
  }
  // Waits until the ring is full, then lets time pass while all workers are kept from it.
  void Pause(int64_t nanoseconds) {
    WaitUntilFull();
    auto meeting = std::make_shared<Meeting>();
    for (int i = 0; i < kThreads; ++i) {
      context_->workers().Enqueue([meeting] {
        meeting->met.arrive_and_wait();
        meeting->release.wait();
      });
    }
    meeting->met.arrive_and_wait();
    now_ += nanoseconds;
    meeting->release.count_down();
  }
  // Takes batches until the rows of all workers have met.
  void MeetAllWorkers() {
    meeting_.emplace(kThreads);
    to_meet_ = kThreads;
    while (!meeting_->try_wait()) Next();
  }
  // Batches that were worked on before anybody asked for them.
  int64_t batches_ahead() const { return rows_ / kBatch - taken_; }
  int64_t now() const { return now_; }
  int64_t threads() { return context_->metrics().gauge(metric::kWorkerTarget).value(); }
  int64_t ring() { return context_->metrics().gauge(metric::kRingTarget).value(); }
  Context& context() { return *context_; }
  Executor& executor() { return *executor_; }

  std::atomic<bool> work_takes_time{false};  // test -> workers

 private:
  struct Meeting {
    std::latch met{kThreads + 1};
    std::latch release{1};
  };
  void Work() {
    ++rows_;
    if (--to_meet_ >= 0) meeting_->arrive_and_wait();
    while (work_takes_time && !in_next_) std::this_thread::yield();
    if (work_takes_time) now_ += kMillisecond;
  }

  const std::shared_ptr<Context> context_;
  std::atomic<int64_t> now_{kMillisecond};  // workers and test -> workers and test
  std::atomic<int64_t> rows_{0};            // workers -> test
  std::atomic<bool> in_next_{false};        // test -> workers
  std::atomic<int64_t> to_meet_{0};         // test -> workers: rows
  std::optional<std::latch> meeting_;
  int64_t taken_ = 0;
  std::unique_ptr<Executor> executor_;
};

// A consumer that is slower than the work.
void BeSlow(Simulation& simulation, int64_t nanoseconds) {
  for (const int64_t end = simulation.now() + nanoseconds; simulation.now() < end;) {
    simulation.Next();
    simulation.Pause(50 * kMillisecond);
  }
}

TEST(ExecutorAdaptTest, AChangeOfPhaseMovesTheTargetsWithinASecond) {
  Simulation simulation((OpenOptions()));
  EXPECT_EQ(simulation.threads(), kThreads);
  EXPECT_EQ(simulation.ring(), kRing);
  for (int round = 0; round < 2; ++round) {
    BeSlow(simulation, kSecond);
    EXPECT_EQ(simulation.threads(), 1);
    EXPECT_LT(simulation.ring(), kRing);
    // So long that what comes then is no regret of the shrink.
    BeSlow(simulation, 3 * kSecond);
    EXPECT_EQ(simulation.threads(), 1);
    const int64_t ring = simulation.ring();
    EXPECT_EQ(simulation.batches_ahead(), ring);
    // Now the consumer waits for all of the work.
    simulation.work_takes_time = true;
    const int64_t begin = simulation.now();
    while (simulation.threads() < kThreads && simulation.now() - begin < kSecond) {
      simulation.Next();
    }
    EXPECT_EQ(simulation.threads(), kThreads);
    EXPECT_GT(simulation.ring(), ring);
    simulation.work_takes_time = false;
    simulation.MeetAllWorkers();
    simulation.WaitUntilFull();
  }
}

TEST(ExecutorAdaptTest, SwitchedOffNothingMoves) {
  OpenOptions options;
  options.adapt = false;
  Simulation simulation(options);
  BeSlow(simulation, 4 * kSecond);
  EXPECT_EQ(simulation.threads(), kThreads);
  EXPECT_EQ(simulation.ring(), kRing);
}

TEST(ExecutorAdaptTest, TheCpuBudgetIsTheMostThatItGrowsTo) {
  OpenOptions options;
  options.cpu_budget = 2;
  Simulation simulation(options);
  EXPECT_EQ(simulation.threads(), 2);
  BeSlow(simulation, 4 * kSecond);
  simulation.work_takes_time = true;
  for (int i = 0; i < 50; ++i) simulation.Next();
  EXPECT_EQ(simulation.context().metrics().gauge(metric::kWorkerTarget).max(), 2);
}

TEST(ExecutorAdaptTest, ALimitThatMovesIsObeyedAtOnce) {
  for (const bool adapt : {true, false}) {
    OpenOptions options;
    options.adapt = adapt;
    Simulation simulation(options);
    for (const auto& [limit, threads] : {std::pair(2, 2), {0, 1}, {3, 3}, {100, kThreads}}) {
      simulation.executor().SetThreadLimit(limit);
      EXPECT_EQ(simulation.threads(), threads);
      EXPECT_EQ(simulation.executor().Profile().workers, threads);
      EXPECT_EQ(simulation.ring(), kRing);
    }
  }
}

TEST(ExecutorAdaptTest, AStarvingConsumerGetsNoMoreThreadsThanTheLimit) {
  Simulation simulation((OpenOptions()));
  simulation.executor().SetThreadLimit(1);
  simulation.work_takes_time = true;
  for (int i = 0; i < 50; ++i) {
    simulation.Next();
    ASSERT_EQ(simulation.threads(), 1);
  }
}

TEST(ExecutorAdaptTest, GaugesAddUpOverPipelinesAndGoBackToZero) {
  const auto context = FakeContext(3);
  Gauge& threads = context->metrics().gauge(metric::kWorkerTarget);
  Gauge& ring = context->metrics().gauge(metric::kRingTarget);
  {
    OpenOptions options;
    options.prefetch_batches = 5;
    const auto one = OpenFake(MakePlan(4), MakeFakeData(8), context, options);
    options.cpu_budget = 2;
    const auto two = OpenFake(MakePlan(4), MakeFakeData(8), context, options);
    EXPECT_EQ(threads.value(), 5);
    EXPECT_EQ(ring.value(), 10);
  }
  EXPECT_EQ(threads.value(), 0);
  EXPECT_EQ(ring.value(), 0);
}

}  // namespace
}  // namespace millrace::pipeline
