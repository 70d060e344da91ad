// Buffers that live at the same time do not overlap, and networks need little more than these.

#include "trainer/backend/arena.h"

#include <gtest/gtest.h>

#include "base/philox.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/onednn/value_memory.h"
#include "trainer/models.h"

namespace millrace::trainer {
namespace {

void ExpectApart(const std::vector<BufferLife>& buffers, const ArenaPlan& plan) {
  for (size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.bytes);
    for (size_t b = 0; b < a; ++b) {
      if (!buffers[a].Meets(buffers[b])) continue;
      EXPECT_TRUE(plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                  plan.offsets[b] + buffers[b].bytes <= plan.offsets[a]);
    }
  }
}

TEST(ArenaTest, BuffersThatMeetLieApart) {
  RandomStream random(RandomKey{});
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<BufferLife> buffers(1 + random.Below(40));
    for (BufferLife& buffer : buffers) {
      buffer.bytes = random.Below(100'000);
      buffer.intervals.resize(1 + random.Below(2));
      int64_t time = 0;
      for (Interval& interval : buffer.intervals) {
        time += static_cast<int64_t>(random.Below(30));
        interval.Extend(time);
        time += static_cast<int64_t>(random.Below(20));
        interval.Extend(time);
        ++time;
      }
    }
    const ArenaPlan plan = PlanArena(buffers);
    ExpectApart(buffers, plan);
    EXPECT_GE(plan.bytes, plan.live_bytes);
  }
}

TEST(ArenaTest, OneAfterAnotherShareTheirBytes) {
  std::vector<BufferLife> buffers = {{8192, {{0, 1}}}, {8192, {{2, 3}}}, {4096, {{1, 2}}}};
  const ArenaPlan plan = PlanArena(buffers);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 12288u);
  EXPECT_EQ(plan.live_bytes, 12288u);
  buffers[1].intervals[0].first = 1;
  EXPECT_EQ(PlanArena(buffers).bytes, 20480u);
}

TEST(ArenaTest, OneLivesWhileAnotherIsLost) {
  std::vector<BufferLife> buffers = {{8192, {{0, 1}, {6, 7}}}, {8192, {{2, 5}}}};
  EXPECT_EQ(PlanArena(buffers).bytes, 8192u);
  EXPECT_EQ(MostLiveBytes(buffers), 8192u);
  buffers[1].intervals[0].last = 6;
  EXPECT_EQ(PlanArena(buffers).bytes, 16384u);
  EXPECT_EQ(MostLiveBytes(buffers), 16384u);
}

TEST(ArenaTest, ResNet50NeedsLittleMoreThanWhatLivesAtATime) {
  const auto text = WriteModel("resnet50", {});
  ASSERT_TRUE(text.ok()) << text.status();
  const Model model = MakeModel(*text);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const ArenaPlan training = ValueMemory(model, 16, NetworkUse::kTraining, 1, engine).plan();
  EXPECT_LE(static_cast<double>(training.bytes), 1.15 * static_cast<double>(training.live_bytes));
  EXPECT_LT(training.bytes, size_t{1600} << 20);
  const ArenaPlan evaluation = ValueMemory(model, 16, NetworkUse::kEvaluation, 1, engine).plan();
  EXPECT_LT(evaluation.bytes, training.bytes / 6);
}

TEST(ArenaTest, ResNet50NeedsHalfOfItAtMostWhereActivationsAreRecomputed) {
  const auto text = WriteModel("resnet50", {});
  ASSERT_TRUE(text.ok()) << text.status();
  const Model model = MakeModel(*text);
  BackendOptions options(1);
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    options.precision = precision;
    options.recomputes_activations = false;
    const auto kept = OneDnnActivationMemory(model, 16, NetworkUse::kTraining, options);
    options.recomputes_activations = true;
    const auto made_again = OneDnnActivationMemory(model, 16, NetworkUse::kTraining, options);
    ASSERT_TRUE(kept.ok() && made_again.ok());
    EXPECT_LE(made_again->bytes, kept->bytes / 2);
    EXPECT_LE(static_cast<double>(made_again->bytes),
              1.15 * static_cast<double>(made_again->live_bytes));
  }
}

}  // namespace
}  // namespace millrace::trainer
