#include <thread>

#include "base/metric_table.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/source/push_fixture.h"

// Sources of every kind: numbers, joined ones, and those that are pushed. The rules cited are those
// of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;
using Code = absl::StatusCode;

OpenedSources RangeSources(const PhysicalPlan& plan) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  for (const SourceSpec& spec : plan.sources) sources.push_back(MakeRangeSource(spec.count));
  return JoinSources(plan, std::move(sources));
}

SourceSpec RangeOf(uint64_t count) {
  SourceSpec spec;
  spec.kind = SourceSpec::Kind::kRange;
  spec.count = count;
  return spec;
}

// S-ORDER-20.
TEST(ExecutorSourceTest, ARangeIsItsNumbersAndReadsNothing) {
  PhysicalPlan plan = MakePlan(16, {Step(Kind::kShard, 2)});
  plan.order.steps[0].second = 1;
  plan.ops.clear();
  plan.batch_schema = Schema({{"value", DType::kI64, {}}});
  plan.sources = {RangeOf(100)};
  const auto context = FakeContext(2);
  OpenedSources sources = RangeSources(plan);
  auto pipeline = *OpenPhysical(std::move(plan), std::move(sources), context, {});
  int64_t expected = 1;
  for (int b = 0; b < 4; ++b) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok() && batch->has_value());
    for (int64_t row = 0; row < (*batch)->num_valid_rows(); ++row, expected += 2) {
      EXPECT_EQ((*batch)->Find("value").as<int64_t>()[row], expected);
    }
  }
  EXPECT_EQ(expected, 101);
  EXPECT_FALSE((*pipeline->Next()).has_value());
  EXPECT_EQ(context->metrics().counter(metric::kBytesRead).value(), 0);
}

// S-ORDER-20, S-ORDER-21.
TEST(ExecutorSourceTest, JoinedSourcesAreNumberedThrough) {
  PhysicalPlan plan = MakePlan(4);
  plan.order.root = OrderPlan::Root::kConcatenate;
  plan.order.stage = "concatenate";
  plan.order.inputs.resize(3);
  for (size_t i = 0; i < 3; ++i) plan.order.inputs[i].source = i;
  FakeData parts[3] = {MakeFakeData(9), MakeFakeData(0), MakeFakeData(5, 60)};
  parts[2].bad_crc = {4};
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  for (const FakeData& part : parts) sources.push_back(std::make_unique<FakeSource>(part));
  OpenedSources joined = JoinSources(plan, std::move(sources));
  EXPECT_EQ(joined.source->num_records(), 14u);
  EXPECT_EQ(joined.source->files().size(), 3u);
  const auto pipeline =
      *OpenPhysical(std::move(plan), std::move(joined), FakeContext(2), OpenOptions());
  for (uint64_t b = 0; b < 3; ++b) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
    for (uint64_t row = 0; row < 4; ++row) {
      const uint64_t record = 4 * b + row;
      EXPECT_EQ((*batch)->ids()[row].record, record);
      const std::string& payload =
          record < 9 ? parts[0].payloads[record] : parts[2].payloads[record - 9];
      EXPECT_EQ((*batch)->Find("hash").as<int64_t>()[2 * row],
                static_cast<int64_t>(HashName(payload)));
    }
  }
  const absl::Status status = pipeline->Next().status();
  EXPECT_EQ(status.code(), Code::kDataLoss) << status;
  EXPECT_EQ(GetRecordError(status)->position, 13);
}

// S-ORDER-20: a joined range begins again at 0.
TEST(ExecutorSourceTest, EveryRangeOfAJoinBeginsAtZero) {
  PhysicalPlan plan = MakePlan(5);
  plan.ops.clear();
  plan.batch_schema = Schema({{"value", DType::kI64, {}}});
  plan.sources = {RangeOf(2), RangeOf(3)};
  plan.order.root = OrderPlan::Root::kConcatenate;
  plan.order.inputs.resize(2);
  plan.order.inputs[1].source = 1;
  OpenedSources sources = RangeSources(plan);
  const auto pipeline = *OpenPhysical(std::move(plan), std::move(sources), FakeContext(1), {});
  EXPECT_THAT((**pipeline->Next()).Find("value").as<int64_t>(),
              testing::ElementsAre(0, 1, 0, 1, 2));
}

// What comes out while another thread pushes all of `data`.
Stream DrainPushed(Pipeline& pipeline, PushSource& push, const FakeData& data) {
  std::thread feeder([&] {
    for (const std::string& payload : data.payloads) ASSERT_TRUE(push.Push(payload).ok());
    push.Finish();
  });
  Stream stream = Drain(pipeline);
  feeder.join();
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  return stream;
}

// S-USER-6, S-USER-7.
TEST(ExecutorSourceTest, PushedRecordsComeAsBatchesAndTheLastOneIsPartial) {
  const FakeData data = MakeFakeData(203);
  const Stream expected =
      Drain(*OpenFake(MakePlan(8, {Step(Kind::kSkip, 3)}), data, FakeContext(1)));
  PushSourceOptions push_options;
  push_options.max_bytes = 900;  // fewer than a batch of records
  auto push = PushSource::Make(push_options);
  auto pipeline = *OpenPushed(MakePlan(8, {Step(Kind::kSkip, 3)}), push, FakeContext(2));
  EXPECT_FALSE(pipeline->length().known);
  const Stream stream = DrainPushed(*pipeline, *push, data);
  EXPECT_EQ(stream.digests, expected.digests);
  EXPECT_EQ(pipeline->Restore(pipeline->Save()).code(), Code::kFailedPrecondition);
  EXPECT_EQ(
      OpenPushed(MakePlan(8), PushSource::Make(), FakeContext(2), pipeline->Save()).status().code(),
      Code::kFailedPrecondition);
}

// S-ORDER-22.
TEST(ExecutorSourceTest, PushedRecordsAreTakenSkippedAndShardedAsThoseOfAFileAre) {
  const FakeData data = MakeFakeData(203);
  for (const uint64_t most : {43, 500}) {  // ends before its source, and with it
    std::vector<OrderStep> steps = {Step(Kind::kSkip, 3), Step(Kind::kShard, 4),
                                    Step(Kind::kTake, most)};
    steps[1].second = 1;
    const Stream expected = Drain(*OpenFake(MakePlan(8, steps), data, FakeContext(1)));
    auto push = PushSource::Make();
    auto pipeline = *OpenPushed(MakePlan(8, steps), push, FakeContext(2));
    const Stream stream = DrainPushed(*pipeline, *push, data);
    EXPECT_EQ(stream.digests.size(), most == 43 ? 6u : 7u);
    EXPECT_EQ(stream.digests, expected.digests);
  }
}

// S-USER-6.
TEST(ExecutorSourceTest, AFailedPushSourceIsAnErrorBehindItsRecords) {
  auto push = PushSource::Make();
  auto pipeline = *OpenPushed(MakePlan(4), push, FakeContext(2));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(push->Push("payload").ok());
  push->Fail(absl::UnavailableError("the feeder is gone"));
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(stream.end.code(), Code::kUnavailable);
}

// S-ORDER-22.
TEST(ExecutorSourceTest, CancelEndsAWaitForPushedRecords) {
  const auto context = FakeContext(2);
  auto push = PushSource::Make();
  auto pipeline = *OpenPushed(MakePlan(4), push, context);
  const Counter& waits = context->metrics().counter(metric::kConsumerWaits);
  std::thread canceller([&] {
    while (waits.value() == 0) std::this_thread::yield();
    pipeline->Cancel();
  });
  EXPECT_EQ(pipeline->Next().status().code(), Code::kCancelled);
  canceller.join();
  EXPECT_EQ(push->Push("late").code(), Code::kCancelled);
  EXPECT_EQ(OpenPushed(MakePlan(4), nullptr, FakeContext(2)).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
