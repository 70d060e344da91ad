#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <thread>

#include "base/metric_table.h"
#include "tests/pipeline/executor/delaying_ops.h"
#include "tests/pipeline/executor/executor_fixture.h"

// A wait for the next batch that has a limit.

namespace millrace::pipeline {
namespace {

using Code = absl::StatusCode;
using Nanoseconds = std::chrono::nanoseconds;

constexpr Nanoseconds kNever = Nanoseconds::max();

// A gate at which all rows stop until it is opened.
class Gate {
 public:
  PhysicalOp Op() {
    return CheckOp([this](uint64_t) {
      if (!entered_.test_and_set()) came_.count_down();
      open_.wait();
      return true;
    });
  }
  void AwaitRow() { came_.wait(); }
  void Open() { open_.count_down(); }

 private:
  std::atomic_flag entered_;
  std::latch came_{1};
  std::latch open_{1};
};

TEST(ExecutorLimitTest, AWaitThatTimesOutLeavesTheStreamWhereItStood) {
  const FakeData data = MakeFakeData(60);
  const Stream expected = Drain(*OpenFake(MakePlan(8), data, FakeContext(1)));
  Gate gate;
  PhysicalPlan plan = MakePlan(8);
  plan.ops.push_back(gate.Op());
  const auto context = FakeContext(2);
  const auto pipeline = OpenFake(std::move(plan), data, context);
  const std::string begin = pipeline->Save();
  for (const Nanoseconds limit : {Nanoseconds(-1), Nanoseconds(0), Nanoseconds(1),
                                  Nanoseconds(100'000), Nanoseconds::min()}) {
    EXPECT_FALSE(pipeline->NextFor(limit).has_value()) << limit.count();
  }
  EXPECT_EQ(pipeline->Save(), begin);
  gate.Open();
  EXPECT_EQ(Drain(*pipeline).tokens, expected.tokens);
}

TEST(ExecutorLimitTest, AnOutcomeEndsTheWait) {
  Gate gate;
  PhysicalPlan plan = MakePlan(8);
  plan.ops.push_back(gate.Op());
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(8), FakeContext(2));
  std::thread opener([&] {
    gate.AwaitRow();
    gate.Open();
  });
  const auto batch = pipeline->NextFor(kNever);
  opener.join();
  ASSERT_TRUE(batch.has_value() && batch->ok() && (*batch)->has_value());
  EXPECT_EQ((**batch)->index(), 0u);
  const auto end = pipeline->NextFor(std::chrono::hours(1));
  ASSERT_TRUE(end.has_value() && end->ok());
  EXPECT_FALSE((*end)->has_value());
}

TEST(ExecutorLimitTest, CancelEndsTheWait) {
  Gate gate;
  PhysicalPlan plan = MakePlan(8);
  plan.ops.push_back(gate.Op());
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(8), FakeContext(2));
  std::thread canceller([&] {
    gate.AwaitRow();
    pipeline->Cancel();
  });
  const auto outcome = pipeline->NextFor(std::chrono::hours(1));
  canceller.join();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->status().code(), Code::kCancelled);
  gate.Open();
}

// The clock goes on by an hour at each look, so that no wait of an hour waits.
TEST(ExecutorLimitTest, TheLimitIsMeasuredWithTheClockOfTheExecutor) {
  Gate gate;
  PhysicalPlan plan = MakePlan(8);
  plan.ops.push_back(gate.Op());
  const auto context = FakeContext(1);
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(MakeFakeData(8)));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  OpenOptions options;
  options.adapt = false;
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), context, options);
  ASSERT_TRUE(parts.ok()) << parts.status();
  std::atomic<int64_t> hours{0};
  parts->clock = [&] { return Nanoseconds(std::chrono::hours(++hours)).count(); };
  const auto pipeline = *OpenParts(*std::move(parts), options);
  const Counter& waits = context->metrics().counter(metric::kConsumerWaits);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_FALSE(pipeline->NextFor(std::chrono::hours(1)).has_value());
    EXPECT_EQ(waits.value(), i);
  }
  gate.Open();
  EXPECT_EQ((*pipeline->Next())->num_valid_rows(), 8);
}

TEST(ExecutorLimitTest, LimitsDoNotChangeTheStream) {
  const FakeData data = MakeFakeData(250);
  const Stream expected = Drain(*OpenFake(MakePlan(24), data, FakeContext(1)));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto delays = std::make_shared<Delays>(seed);
    const auto pipeline =
        OpenFake(WithDelays(MakePlan(24), delays), data, DelayingContext(3, delays));
    std::vector<std::string> tokens;
    while (true) {
      auto outcome = pipeline->NextFor(Nanoseconds(seed * 100));
      if (!outcome.has_value()) continue;
      ASSERT_TRUE(outcome->ok()) << outcome->status();
      if (!(*outcome)->has_value()) break;
      tokens.push_back((**outcome)->resume_token());
    }
    EXPECT_EQ(tokens, expected.tokens) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::pipeline
