#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/executor/delaying_ops.h"
#include "tests/sanitized.h"

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

// Records so long that each is a run: workers end them in any order, also across a round. S-CUT-18.
TEST(EmptyStreamDelayTest, OneRecordThatPassesIsEnoughWhicheverRunEndsFirst) {
  FakeData data = MakeFakeData(12, 130 << 10);
  for (size_t i = 0; i < data.payloads.size(); ++i)
    data.payloads[i].resize(i == 3 ? 41 : 130 << 10);
  for (uint64_t seed = 0; seed < RacingRounds(20u); ++seed) {
    const auto delays = std::make_shared<Delays>(seed);
    const uint64_t batch = seed % 2 == 0 ? 6 : 5;
    PhysicalPlan plan = WithDelays(FilterPlan(batch, 1, {Step(Kind::kRepeat, 0)}), delays);
    const auto pipeline = OpenFake(std::move(plan), data, DelayingContext(8, delays));
    const Stream stream = Drain(*pipeline, 3);
    EXPECT_TRUE(stream.end.ok()) << "seed " << seed << ": " << stream.end;
    EXPECT_EQ(stream.digests.size(), 3u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::pipeline
