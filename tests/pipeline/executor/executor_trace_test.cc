#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/metric_table.h"
#include "tests/pipeline/executor/executor_fixture.h"

// The trace of an executor, and its measurements among the metrics of its context.

namespace millrace::pipeline {
namespace {

size_t CountOf(const PipelineTrace& trace, TraceEvent::Kind kind) {
  return static_cast<size_t>(std::ranges::count(trace.events, kind, &TraceEvent::kind));
}

TEST(ExecutorTraceTest, HasItemsReadsAndBatches) {
  const auto context = FakeContext(2);
  // More batches than can be open at once.
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(2000), context);
  ASSERT_TRUE(pipeline->Next().ok());
  pipeline->StartTrace();
  const Stream stream = Drain(*pipeline);
  ASSERT_TRUE(stream.end.ok()) << stream.end;
  const PipelineTrace trace = pipeline->TakeTrace();
  const PipelineProfile profile = pipeline->Profile();
  EXPECT_EQ(CountOf(trace, TraceEvent::Kind::kBatch), static_cast<size_t>(profile.batches - 1));
  EXPECT_GT(CountOf(trace, TraceEvent::Kind::kItem), 0u);
  EXPECT_EQ(trace.dropped, 0u);
  for (const TraceEvent& event : trace.events) {
    EXPECT_LE(event.begin_ns, event.end_ns);
    EXPECT_LE(event.end_ns, profile.now_ns);
  }
}

TEST(ExecutorTraceTest, IsEmptyWithoutAStartAndAfterTheEnd) {
  const auto context = FakeContext(1);
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(100), context);
  EXPECT_TRUE(pipeline->TakeTrace().events.empty());
  pipeline->StartTrace();
  ASSERT_TRUE(pipeline->Next().ok());
  EXPECT_FALSE(pipeline->TakeTrace().events.empty());
  ASSERT_TRUE(pipeline->Next().ok());
  EXPECT_TRUE(pipeline->TakeTrace().events.empty());
}

TEST(ExecutorTraceTest, ItsMeasurementsAreMetrics) {
  const auto context = FakeContext(1);
  auto pipeline = OpenFake(MakePlan(8), MakeFakeData(100), context);
  const Stream stream = Drain(*pipeline);
  ASSERT_TRUE(stream.end.ok()) << stream.end;
  (void)context->metrics().Snapshot();
  int64_t by_cause = 0;
  for (const auto& [cause, ns] : context->metrics().CountersOf(metric::kWaitCauseSeconds)) {
    by_cause += ns;
  }
  EXPECT_EQ(by_cause, pipeline->Profile().wait_total_ns());
  EXPECT_GT(context->metrics().CountersOf(metric::kWorkerSeconds).at("process"), 0);
  pipeline.reset();
  (void)context->metrics().Snapshot();  // asks nobody who is gone
}

}  // namespace
}  // namespace millrace::pipeline
