#include <random>
#include <thread>

#include "pipeline/device/handoff.h"
#include "tests/pipeline/device/fake_device.h"
#include "tests/pipeline/executor/delaying_ops.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/sanitized.h"

// The executor under delays that a seed names. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

PhysicalPlan ShuffledPlan() {
  return MakePlan(24, {Step(Kind::kGlobalShuffle), Step(Kind::kRepeat, 2)});
}

// S-RANDOM-2.
TEST(ExecutorDelayTest, BitsDoNotDependOnWhenThingsHappen) {
  const FakeData data = MakeFakeData(250);
  const Stream expected = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(1)));
  ASSERT_EQ(expected.digests.size(), 21u);
  for (uint64_t seed = 0; seed < RacingRounds(60u); ++seed) {
    std::mt19937_64 random(seed);
    const auto delays = std::make_shared<Delays>(seed);
    const int threads = 1 + static_cast<int>(random() % 8);
    OpenOptions options;
    options.prefetch_batches = 1 + static_cast<int>(random() % 6);
    const int64_t budget = random() % 2 == 0 ? 3000 : int64_t{1} << 30;
    PhysicalPlan plan = WithDelays(ShuffledPlan(), delays);
    const auto pipeline =
        OpenFake(std::move(plan), data, DelayingContext(threads, delays, budget), options);
    const Stream stream = Drain(*pipeline);
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    EXPECT_EQ(stream.digests, expected.digests) << "seed " << seed;
    EXPECT_GT(delays->count(), 0u);
  }
}

// S-ERROR-1.
TEST(ExecutorDelayTest, LowestErrorWinsWhicheverCameFirst) {
  FakeData data = MakeFakeData(250);
  data.bad_crc = {71, 72, 80, 100, 200};
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto delays = std::make_shared<Delays>(seed);
    OpenOptions options;
    options.prefetch_batches = 5;
    const auto pipeline =
        OpenFake(WithDelays(MakePlan(24), delays), data, DelayingContext(4, delays), options);
    const Stream stream = Drain(*pipeline);
    EXPECT_EQ(stream.digests.size(), 2u);  // 71 is the last of batch 2
    const auto where = GetRecordError(stream.end);
    ASSERT_TRUE(where.has_value()) << stream.end;
    EXPECT_EQ(where->position, 71) << "seed " << seed;
  }
}

TEST(ExecutorDelayTest, DroppingAtAnyTimeEnds) {
  const FakeData data = MakeFakeData(250);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto delays = std::make_shared<Delays>(seed);
    const auto pipeline = OpenFake(WithDelays(ShuffledPlan(), delays), data,
                                   DelayingContext(1 + static_cast<int>(seed % 5), delays));
    Drain(*pipeline, seed % 7);
    std::thread other([&] {
      delays->Delay(seed);
      pipeline->Cancel();
    });
    Drain(*pipeline);
    other.join();
  }
}

TEST(ExecutorDelayTest, TryNextSaysWhatNextWouldSay) {
  const FakeData data = MakeFakeData(250);
  const Stream expected = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(1)));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto delays = std::make_shared<Delays>(seed);
    const auto pipeline =
        OpenFake(WithDelays(ShuffledPlan(), delays), data, DelayingContext(3, delays));
    std::vector<std::string> tokens;
    while (true) {
      auto outcome = pipeline->TryNext();
      if (!outcome.has_value()) outcome = pipeline->Next();
      ASSERT_TRUE(outcome->ok()) << outcome->status();
      if (!(*outcome)->has_value()) break;
      tokens.push_back((**outcome)->resume_token());
    }
    EXPECT_EQ(tokens, expected.tokens);
    const auto end = pipeline->TryNext();
    ASSERT_TRUE(end.has_value() && end->ok());
    EXPECT_FALSE((*end)->has_value());
    pipeline->Cancel();
    EXPECT_EQ(pipeline->TryNext()->status().code(), absl::StatusCode::kCancelled);
  }
}

// A pipeline whose op hangs until the test lets it go.
TEST(ExecutorDelayTest, TryNextDoesNotWaitForWork) {
  std::atomic<bool> open{false};
  PhysicalPlan plan = MakePlan(8);
  plan.ops.push_back(CheckOp([&](uint64_t) {
    while (!open.load()) std::this_thread::yield();
    return true;
  }));
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(8), FakeContext(1));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(pipeline->TryNext().has_value());
  open.store(true);
  EXPECT_TRUE((*pipeline->Next())->num_valid_rows() == 8);
}

// S-HANDOFF-1, S-HANDOFF-4: also with a host budget that has room for one batch.
TEST(ExecutorDelayTest, HandOffDeliversEveryBatchUnderDelaysAndTightBudgets) {
  const FakeData data = MakeFakeData(250);
  const Stream expected = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(1)));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto delays = std::make_shared<Delays>(seed);
    const int64_t budget = 1000 * static_cast<int64_t>(1 + seed % 8);
    const auto device = std::make_shared<FakeDevice>(/*automatic=*/false);
    device->progress_on_query = true;
    auto handoff = Handoff::Make(
        device,
        OpenFake(WithDelays(ShuffledPlan(), delays), data, DelayingContext(3, delays, budget)),
        {.ring = 1 + static_cast<int>(seed % 3)});
    ASSERT_TRUE(handoff.ok());
    DeviceFeed feed(*std::move(handoff));
    std::vector<std::string> tokens;
    while (true) {
      const auto batch = feed.Next();
      ASSERT_TRUE(batch.ok()) << batch.status() << " seed " << seed;
      if (!batch->has_value()) break;
      tokens.push_back((*batch)->resume_token());
    }
    EXPECT_EQ(tokens, expected.tokens) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::pipeline
