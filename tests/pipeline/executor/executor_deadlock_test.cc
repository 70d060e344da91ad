#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/pipeline/executor/heavy_plans.h"
#include "tests/sanitized.h"

// Tries to break the argument against deadlock (docs/executor.md): plans, sizes, budgets of a few
// KiB, several pipelines on one context, and consumers that hold and drop batches at random. What
// comes out is compared with the stream of a roomy budget, so a bit that changed is found too.
//
// By itself for a second or two; for a minute with --gtest_also_run_disabled_tests (label `long`).

namespace millrace::pipeline {
namespace {

using Random = std::mt19937_64;
using Clock = std::chrono::steady_clock;

uint64_t Below(Random& random, uint64_t limit) { return random() % limit; }

// Ends the process, naming the seed, when it is still there after 90 s. It does not judge speed:
// that is far beyond what any case takes.
class Watchdog {
 public:
  explicit Watchdog(uint64_t seed) : seed_(seed), thread_([this] { Watch(); }) {}
  ~Watchdog() {
    {
      MutexLock lock(mu_);
      done_ = true;
      wake_.NotifyAll();
    }
    thread_.join();
  }

 private:
  void Watch() {
    const Clock::time_point end = Clock::now() + std::chrono::seconds(90);
    MutexLock lock(mu_);
    while (!done_) {
      const auto left = end - Clock::now();
      if (left <= Clock::duration::zero()) {
        std::fprintf(stderr, "a deadlock: seed %llu\n", static_cast<unsigned long long>(seed_));
        std::_Exit(3);
      }
      wake_.WaitFor(mu_, std::chrono::duration_cast<std::chrono::nanoseconds>(left));
    }
  }

  const uint64_t seed_;
  Mutex mu_;
  CondVar wake_;
  bool done_ MILLRACE_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// A plan of any kind, the same for the same number.
PhysicalPlan PlanOf(uint64_t number) {
  Random random(number);
  using Kind = OrderStep::Kind;
  std::vector<OrderStep> order;
  const uint64_t shuffle = Below(random, 3);
  if (shuffle == 0) order.push_back(Step(Kind::kGlobalShuffle));
  if (shuffle == 1) order.push_back(Step(Kind::kShuffle, 1 + Below(random, 400)));
  const std::vector<NamedPlan> cuts = CutPlans();
  const uint64_t kind = Below(random, 2 * cuts.size());
  PhysicalPlan plan =
      kind < cuts.size() ? cuts[kind].make() : MakePlan(1 + Below(random, 20), std::move(order));
  if (Below(random, 3) == 0) {
    const auto bytes = static_cast<int64_t>(1 + Below(random, 4000));
    plan.ops.push_back(BigOp(bytes));
    plan.batch_schema.Set({"big", DType::kU8, {bytes}});
  }
  if (Below(random, 3) == 0) {
    plan.ops.push_back(ScratchOp(static_cast<int64_t>(1 + Below(random, 400'000))));
  }
  if (Below(random, 2) == 0) plan.batch_order = {Step(Kind::kRepeat, 2)};
  plan.prefetch_batches = static_cast<int>(1 + Below(random, 12));
  return plan;
}

// Small records, and now and then one that no budget here has room for.
FakeData DataOf(uint64_t number) {
  Random random(number + 1);
  FakeData data = MakeFakeData(20 + Below(random, 150));
  data.records_per_shard = 1 + Below(random, 40);
  if (Below(random, 3) == 0) data.memory_bytes = Below(random, uint64_t{1} << Below(random, 18));
  for (std::string& payload : data.payloads) {
    const uint64_t what = Below(random, 40);
    if (what == 0) payload.resize(20'000 + Below(random, 300'000), 'y');
    if (what > 30) payload.resize(40 + Below(random, 4000), 'z');
  }
  return data;
}

// Takes batches of one pipeline, holds some and drops some, and digests all.
class Consumer {
 public:
  Consumer(uint64_t number, std::shared_ptr<Context> context, uint64_t seed)
      : random_(seed), most_held_(Below(random_, 8)), context_(std::move(context)) {
    OpenOptions options;
    options.cpu_budget = static_cast<int>(Below(random_, 3));
    pipeline_ = OpenFake(PlanOf(number), DataOf(number), context_, options);
  }

  // One step; false at the end of the stream. `blocks`: it may wait for work.
  bool Step(bool blocks) {
    if (Below(random_, 4) == 0) DropOne();
    if (blocks) return Take(pipeline_->Next());
    auto outcome = pipeline_->TryNext();
    return outcome.has_value() ? Take(*std::move(outcome)) : true;
  }
  Random& random() { return random_; }
  const std::vector<uint64_t>& digests() const { return digests_; }
  void DropAll() { held_.clear(); }

 private:
  void DropOne() {
    if (held_.empty()) return;
    held_.erase(held_.begin() + static_cast<int64_t>(Below(random_, held_.size())));
  }

  bool Take(absl::StatusOr<std::optional<Batch>> batch) {
    if (IsRetryable(batch.status())) {
      // Only what consumers hold may be to blame: here, or in another thread that drops it soon.
      DropAll();
      std::this_thread::yield();
      return true;
    }
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return false;
    StreamDigest digest;
    digest.Add(**batch);
    digests_.push_back(digest.value());
    if (held_.size() < most_held_) held_.push_back(**std::move(batch));
    return true;
  }

  Random random_;
  const uint64_t most_held_;
  const std::shared_ptr<Context> context_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<Batch> held_;
  std::vector<uint64_t> digests_;
};

std::vector<uint64_t> ExpectedOf(uint64_t number) {
  const Stream stream = Drain(*OpenFake(PlanOf(number), DataOf(number), FakeContext(1)));
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  return stream.digests;
}

std::shared_ptr<Context> TightContext(Random& random) {
  const int threads = 1 << Below(random, 4);
  const auto budget = static_cast<int64_t>(1 + Below(random, uint64_t{1} << Below(random, 17)));
  return FakeContext(threads, budget);
}

// One thread for all pipelines: it takes from any of them, so a stalled one must not stop others.
void OneThread(std::vector<std::unique_ptr<Consumer>>& consumers, Random& random) {
  std::vector<Consumer*> running;
  for (const auto& consumer : consumers) running.push_back(consumer.get());
  while (!running.empty()) {
    const uint64_t which = Below(random, running.size());
    if (running[which]->Step(Below(random, 3) != 0)) {
      // What others hold is in this thread's hands too: nobody else will drop it.
      if (Below(random, 8) == 0) {
        for (Consumer* consumer : running) consumer->DropAll();
      }
      continue;
    }
    running[which]->DropAll();
    running.erase(running.begin() + static_cast<int64_t>(which));
  }
}

void OneThreadEach(std::vector<std::unique_ptr<Consumer>>& consumers) {
  std::vector<std::thread> threads;
  for (const auto& consumer : consumers) {
    threads.emplace_back([&consumer] {
      while (consumer->Step(/*blocks=*/true)) {
      }
      consumer->DropAll();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void TryToBreak(uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  const Watchdog watchdog(seed);
  Random random(seed);
  const auto context = TightContext(random);
  std::vector<std::unique_ptr<Consumer>> consumers;
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0, count = 1 + Below(random, 4); i < count; ++i) {
    numbers.push_back(random());
    consumers.push_back(std::make_unique<Consumer>(numbers.back(), context, random()));
  }
  if (Below(random, 2) == 0) {
    OneThread(consumers, random);
  } else {
    OneThreadEach(consumers);
  }
  for (size_t i = 0; i < consumers.size(); ++i) {
    EXPECT_EQ(consumers[i]->digests(), ExpectedOf(numbers[i])) << "pipeline " << i;
  }
  consumers.clear();
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
  EXPECT_EQ(context->memory_budget()->held_bytes(), 0);
}

TEST(ExecutorDeadlockTest, NoPlanBudgetOrConsumerStopsAStream) {
  for (uint64_t seed = 1; seed <= Rounds(60u); ++seed) {
    TryToBreak(seed);
    if (HasFailure()) return;
  }
}

TEST(ExecutorDeadlockTest, DISABLED_NoPlanBudgetOrConsumerStopsAStreamForAMinute) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  uint64_t seed = std::random_device()();
  RecordProperty("first_seed", std::to_string(seed));
  for (; Clock::now() < end; ++seed) {
    TryToBreak(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace millrace::pipeline
