#include <gmock/gmock.h>

#include <latch>
#include <memory>
#include <thread>
#include <utility>

#include "pipeline/executor/executor.h"
#include "pipeline/optimize/optimizer.h"

// How often a consumer of short batches has to be woken. The clock stands still, so that nobody is
// woken because time has passed.

namespace millrace::pipeline {
namespace {

constexpr int kRing = 16;
constexpr int kRows =
    1024;  // of a batch: numbers, some of which a worker delivers in a microsecond

// A stream of its own context, whose one worker fills the ring at once.
class ShortBatches {
 public:
  ShortBatches() {
    ContextOptions context_options;
    context_options.threads = 1;
    context_ = *MakeContext(std::move(context_options));
    OpenOptions options;
    options.prefetch_batches = kRing;
    options.adapt = false;
    const auto text = Plan::FromText(
        "stage { range { count: 1000 } } stage { repeat {} } stage { batch { size: 1024 } }", "p");
    PhysicalPlan plan = *BuildPhysicalPlan(*text);
    OpenedSources sources = *OpenSources(plan, *context_, options);
    ExecutorParts parts =
        *MakeExecutorParts(std::move(plan), std::move(sources), context_, options);
    parts.clock = [] { return int64_t{1'000'000}; };
    executor_ = std::make_unique<Executor>(std::move(parts));
    EXPECT_TRUE(executor_->Start({}).ok());
  }

  int64_t waits() const { return CounterOf("millrace_consumer_waits_total"); }

  void Take(int num_batches) {
    for (int i = 0; i < num_batches; ++i) {
      const auto batch = executor_->Next();
      ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
    }
  }
  // Returns when the first ring is full; the worker does nothing more until `release` opens.
  void HoldBehindFullRing(const std::shared_ptr<std::latch>& release) {
    while (CounterOf("millrace_records_read_total") < kRing * kRows) std::this_thread::yield();
    const auto held = std::make_shared<std::latch>(1);
    context_->workers().Enqueue([held, release] {
      held->count_down();
      release->wait();
    });
    held->wait();
  }

 private:
  int64_t CounterOf(const char* name) const { return context_->metrics().counter(name).value(); }

  std::shared_ptr<Context> context_;
  std::unique_ptr<Executor> executor_;
};

TEST(ExecutorWakeTest, AFullRingIsTakenWithoutWaitingAndTheNextOneWithOneWakeUp) {
  for (int round = 0; round < 20; ++round) {
    ShortBatches stream;
    const auto release = std::make_shared<std::latch>(1);
    stream.HoldBehindFullRing(release);
    stream.Take(kRing);
    EXPECT_EQ(stream.waits(), 0);
    std::thread consumer([&] { stream.Take(kRing); });
    while (stream.waits() == 0) std::this_thread::yield();
    release->count_down();
    consumer.join();
    EXPECT_EQ(stream.waits(), 1);
  }
}

}  // namespace
}  // namespace millrace::pipeline
