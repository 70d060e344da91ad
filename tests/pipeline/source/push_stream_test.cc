#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/source/push_fixture.h"
#include "tests/sanitized.h"

// Streams of pushed records against those of the same records in files.

namespace millrace::pipeline {
namespace {

using Code = absl::StatusCode;
using Kind = OrderStep::Kind;

OrderStep Shard(uint64_t shards, uint64_t index) {
  OrderStep step = Step(Kind::kShard, shards);
  step.second = index;
  return step;
}

void AddSettle(PhysicalPlan& plan, SettleStep::Kind kind, uint64_t count, int after_filters) {
  SettleStep step;
  step.kind = kind;
  step.count = count;
  step.after_filters = after_filters;
  step.key = 99;
  step.stage = "settle";
  plan.cut->settle.push_back(step);
}

PhysicalPlan SettledPlan(uint64_t lanes,
                         const std::vector<std::pair<SettleStep::Kind, uint64_t>>& steps) {
  PhysicalPlan plan = FilterPlan(16, lanes);
  AddFilter(plan, "size != 43");
  int filters = 0;
  for (const auto& [kind, count] : steps) AddSettle(plan, kind, count, ++filters % 3);
  return plan;
}

PhysicalPlan WithRemainderDropped(PhysicalPlan plan) {
  plan.batch.drop_remainder = true;
  return plan;
}

PhysicalPlan WithOrder(PhysicalPlan plan, std::vector<OrderStep> steps) {
  plan.order.steps = std::move(steps);
  return plan;
}

// Plans without a cut.
std::vector<NamedPlan> OrderPlans() {
  std::vector<NamedPlan> plans;
  for (const uint64_t buffer : {1, 2, 7, 50, 1000}) {
    plans.push_back({absl::StrCat("shuffle", buffer),
                     [=] { return MakePlan(8, {Step(Kind::kShuffle, buffer)}); }});
  }
  plans.push_back({"drop_remainder",
                   [] { return WithRemainderDropped(MakePlan(8, {Step(Kind::kShuffle, 9)})); }});
  plans.push_back({"skip_shuffle_shard", [] {
                     return MakePlan(8, {Step(Kind::kSkip, 5), Step(Kind::kShuffle, 20),
                                         Shard(3, 1), Step(Kind::kShuffle, 4)});
                   }});
  plans.push_back(
      {"shuffle_skip_shard", [] {
         return MakePlan(8, {Step(Kind::kShuffle, 30), Step(Kind::kSkip, 17), Shard(2, 1)});
       }});
  plans.push_back({"take_shuffle", [] {
                     return MakePlan(8, {Step(Kind::kTake, 60), Step(Kind::kShuffle, 20)});
                   }});
  plans.push_back({"shuffle_take", [] {
                     return MakePlan(8, {Step(Kind::kShuffle, 20), Step(Kind::kTake, 60)});
                   }});
  return plans;
}

// Plans with a cut.
std::vector<NamedPlan> PushedCutPlans() {
  using Batch = BatchSpec::Kind;
  using Settle = SettleStep::Kind;
  std::vector<NamedPlan> plans;
  for (const uint64_t lanes : {1, 8}) {
    const auto add = [&](const std::string& name, std::function<PhysicalPlan()> make) {
      plans.push_back({absl::StrCat(name, "_lanes", lanes), std::move(make)});
    };
    add("filter", [=] { return FilterPlan(16, lanes); });
    add("filter_drop_remainder", [=] { return WithRemainderDropped(FilterPlan(16, lanes)); });
    add("padded", [=] { return TokensPlan(Batch::kPadded, lanes); });
    add("ragged", [=] { return TokensPlan(Batch::kRagged, lanes); });
    add("bucket", [=] { return TokensPlan(Batch::kBucket, lanes); });
    add("unbatch", [=] { return UnbatchPlan(lanes); });
    add("order_before_unbatch", [=] {
      return WithOrder(UnbatchPlan(lanes),
                       {Step(Kind::kShuffle, 12), Step(Kind::kSkip, 9), Shard(2, 0)});
    });
    add("shuffle_before_bucket",
        [=] { return WithOrder(TokensPlan(Batch::kBucket, lanes), {Step(Kind::kShuffle, 12)}); });
    add("shuffle_behind", [=] { return SettledPlan(lanes, {{Settle::kShuffle, 24}}); });
    add("skip_shuffle_behind", [=] {
      return SettledPlan(lanes, {{Settle::kSkip, 11}, {Settle::kShuffle, 24}});
    });
    add("shuffle_take_behind", [=] {
      return SettledPlan(lanes, {{Settle::kShuffle, 24}, {Settle::kTake, 59}});
    });
    add("take_shuffle_behind", [=] {
      return SettledPlan(lanes, {{Settle::kTake, 70}, {Settle::kShuffle, 24}});
    });
  }
  return plans;
}

std::vector<NamedPlan> AllPlans() {
  std::vector<NamedPlan> plans = OrderPlans();
  for (NamedPlan& plan : PushedCutPlans()) plans.push_back(std::move(plan));
  return plans;
}

Stream DrainFed(PhysicalPlan plan, const FakeData& data, int threads, uint64_t max_bytes,
                unsigned seed) {
  const auto push = MakePush(max_bytes);
  auto pipeline = OpenPushed(std::move(plan), push, FakeContext(threads));
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  if (!pipeline.ok()) return {};
  const Feeder feeder(push, data, seed);
  Stream stream = Drain(**pipeline);
  pipeline->reset();  // a feeder that a take left behind
  return stream;
}

class PushStreamTest : public testing::TestWithParam<NamedPlan> {};

// S-PLAN-14, S-ORDER-22, S-USER-7.
TEST_P(PushStreamTest, TheStreamIsThatOfTheSameRecordsInAFile) {
  const FakeData data = MakeFakeData(230);
  const Stream expected = Drain(*OpenFake(GetParam().make(), data, FakeContext(1)));
  ASSERT_GT(expected.digests.size(), 2u);
  for (const int threads : {1, 2, 8}) {
    for (const uint64_t max_bytes : {0, 1024, 1 << 20}) {
      if (TakesFewSettings() && (threads == 1) != (max_bytes == 1024)) continue;
      const Stream stream = DrainFed(GetParam().make(), data, threads, max_bytes, 1 + threads);
      EXPECT_TRUE(stream.end.ok()) << stream.end;
      EXPECT_EQ(stream.digests, expected.digests) << threads << " threads, " << max_bytes << " B";
    }
  }
}

// S-ORDER-22.
TEST_P(PushStreamTest, ItMayEndBehindAnyRecord) {
  for (const size_t records : {0, 1, 7, 16, 17, 41, 66}) {
    const FakeData data = MakeFakeData(records);
    const Stream expected = Drain(*OpenFake(GetParam().make(), data, FakeContext(1)));
    // The end is known at once; or not before a batch was waited for.
    for (const bool at_once : {true, false}) {
      const auto push = MakePush(1 << 20);
      const auto context = FakeContext(2);
      const auto pipeline = *OpenPushed(GetParam().make(), push, context);
      for (const std::string& payload : data.payloads) ASSERT_TRUE(push->Push(payload).ok());
      if (at_once) push->Finish();
      std::atomic<bool> drained = false;
      std::thread finisher([&] {
        const Counter& waits = context->metrics().counter(metric::kConsumerWaits);
        while (!drained && waits.value() == 0) std::this_thread::yield();
        push->Finish();
      });
      const Stream stream = Drain(*pipeline);
      drained = true;
      finisher.join();
      EXPECT_TRUE(stream.end.ok()) << stream.end;
      EXPECT_EQ(stream.digests, expected.digests) << records << " records";
    }
  }
}

// S-USER-8: whatever stays for long, what came after it goes.
TEST_P(PushStreamTest, RecordsGoWhenTheirLastRowIsDelivered) {
  const bool large = GetParam().name == "shuffle1000";
  const FakeData data = MakeFakeData(large ? 3000 : 1000);
  const auto push = MakePush(1024);
  auto pipeline = *OpenPushed(GetParam().make(), push, FakeContext(2));
  uint64_t most = 0;
  {
    const Feeder feeder(push, data);
    for (auto batch = pipeline->Next(); batch.ok() && batch->has_value();
         batch = pipeline->Next()) {
      most = std::max(most, push->held_bytes());
    }
    pipeline.reset();
  }
  // At most 110 B each: a shuffle's buffer, two batches, the rows that wait in lanes.
  EXPECT_LT(most, 110u * (large ? 1100 : 200));
}

// S-USER-6.
TEST_P(PushStreamTest, AnErrorComesBehindTheLastRecord) {
  const FakeData data = MakeFakeData(45);
  const Stream expected = Drain(*OpenFake(GetParam().make(), data, FakeContext(1)));
  const auto push = MakePush(1 << 20);
  const auto pipeline = *OpenPushed(GetParam().make(), push, FakeContext(2));
  for (const std::string& payload : data.payloads) ASSERT_TRUE(push->Push(payload).ok());
  push->Fail(absl::UnavailableError("the feeder is gone"));
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests, expected.digests);
  EXPECT_EQ(stream.end.code(), Code::kUnavailable);
}

TEST_P(PushStreamTest, CancelEndsTheWaitForRecordsAndForRoom) {
  const FakeData data = MakeFakeData(5000);
  const auto push = MakePush(1024);
  const auto pipeline = *OpenPushed(GetParam().make(), push, FakeContext(2));
  const Feeder feeder(push, data);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(pipeline->Next().ok());
  pipeline->Cancel();
  EXPECT_EQ(pipeline->Next().status().code(), Code::kCancelled);
}

std::string NameOf(const testing::TestParamInfo<NamedPlan>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Plans, PushStreamTest, testing::ValuesIn(AllPlans()), NameOf);

bool HasName(const NamedPlan& plan, const std::vector<std::string>& names) {
  return std::ranges::find(names, plan.name) != names.end();
}

// S-ORDER-23, S-USER-8.
TEST(PushRanksTest, RanksThatArePushedTheSameMakeTheSameBatches) {
  const FakeData data = MakeFakeData(1000);
  const auto context = FakeContext(2);
  for (const NamedPlan& plan : AllPlans()) {
    if (!HasName(plan, {"shuffle7", "skip_shuffle_shard", "filter_lanes8", "bucket_lanes8",
                        "unbatch_lanes8", "skip_shuffle_behind_lanes8"})) {
      continue;
    }
    const Stream expected = Drain(*OpenFake(plan.make(), data, context));
    std::vector<uint64_t> sums(expected.digests.size());
    for (int rank = 0; rank < 3; ++rank) {
      OpenOptions options;
      options.rank = rank;
      options.world = 3;
      options.push = MakePush(1024);
      const auto pipeline = *OpenPushed(plan.make(), context, options);
      const Feeder feeder(options.push, data);
      const Stream stream = Drain(*pipeline);
      ASSERT_EQ(stream.digests.size(), sums.size()) << plan.name;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += stream.digests[i];
      EXPECT_LT(options.push->held_bytes(), 110u * 200) << plan.name;
    }
    EXPECT_EQ(sums, expected.digests) << plan.name;
  }
}

// S-USER-7, S-USER-8.
TEST(PushFilterTest, WhatIsDroppedForLongFillsNothing) {
  for (const auto& [dropped, max_bytes] : {std::pair{10'000, 4096}, {300, 0}}) {
    FakeData data;
    data.payloads.assign(static_cast<size_t>(dropped), std::string(40, 'x'));
    for (int i = 0; i < 16; ++i) data.payloads.emplace_back(41, static_cast<char>('a' + i));
    const auto push = MakePush(static_cast<uint64_t>(max_bytes));
    const auto pipeline = *OpenPushed(FilterPlan(8), push, FakeContext(2));
    const Feeder feeder(push, data);
    const Stream stream = Drain(*pipeline);
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    EXPECT_EQ(stream.digests.size(), 2u);
  }
}

// S-USER-7: a batch of records that are larger than the source's limit, and a shuffle's buffer.
TEST(PushFilterTest, WhatTheOldestBatchLacksIsTakenHoweverLarge) {
  const FakeData data = MakeFakeData(200, /*payload_bytes=*/5000);
  PhysicalPlan plans[] = {
      TokensPlan(BatchSpec::Kind::kBucket), UnbatchPlan(),
      WithOrder(TokensPlan(BatchSpec::Kind::kPadded), {Step(Kind::kShuffle, 30)}),
      MakePlan(8, {Step(Kind::kShuffle, 30)})};
  for (PhysicalPlan& plan : plans) {
    const Stream stream = DrainFed(std::move(plan), data, 2, 1024, 1);
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    EXPECT_GT(stream.digests.size(), 10u);
  }
}

// S-CUT-15: the lane whose share is full needs no more records, the others do.
TEST(PushFilterTest, ATakeBehindACutEndsTheStreamWithoutTheSources) {
  const auto make = [] { return SettledPlan(8, {{SettleStep::Kind::kTake, 50}}); };
  const FakeData data = MakeFakeData(4000);
  const Stream expected = Drain(*OpenFake(make(), data, FakeContext(1)));
  const auto push = MakePush(1024);
  const auto pipeline = *OpenPushed(make(), push, FakeContext(2));
  const Feeder feeder(push, data);
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests, expected.digests);
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  EXPECT_LT(push->num_pushed(), 1000u);
  pipeline->Cancel();  // for the feeder
}

// S-USER-8: the first lane has its one row of two, and the other has none for long.
TEST(PushFilterTest, WhatALaneNeedsNoMoreIsNotKept) {
  PhysicalPlan plan = FilterPlan(2, 2);
  AddSettle(plan, SettleStep::Kind::kTake, 2, 1);
  const auto push = MakePush(1024);
  const auto pipeline = *OpenPushed(std::move(plan), push, FakeContext(2));
  uint64_t most = 0;
  std::thread feeder([&] {
    for (int i = 0; i < 4000; ++i) {
      ASSERT_TRUE(
          push->Push(std::string(i % 2 == 0 ? 41 : 40, 'x')).ok());  // the second is dropped
      most = std::max(most, push->held_bytes());
    }
    push->Finish();
  });
  const Stream stream = Drain(*pipeline);
  feeder.join();
  EXPECT_EQ(stream.digests.size(), 1u);
  EXPECT_LT(most, 110u * 200);
}

// S-USER-6: the error stands behind the last record, where this stream does not come.
TEST(PushFilterTest, AnErrorBehindWhatATakeTakesIsNotReached) {
  PhysicalPlan behind_cut = FilterPlan(4);
  AddSettle(behind_cut, SettleStep::Kind::kTake, 8, 1);
  PhysicalPlan plans[] = {MakePlan(4, {Step(Kind::kTake, 8)}),
                          FilterPlan(4, 1, {Step(Kind::kTake, 20)}), std::move(behind_cut)};
  for (PhysicalPlan& plan : plans) {
    const auto push = MakePush(1 << 20);
    const auto pipeline = *OpenPushed(std::move(plan), push, FakeContext(2));
    for (int i = 0; i < 45; ++i) ASSERT_TRUE(push->Push(std::string(40 + i % 5, 'x')).ok());
    push->Fail(absl::UnavailableError("the feeder is gone"));
    const Stream stream = Drain(*pipeline);
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    EXPECT_GE(stream.digests.size(), 2u);
  }
}

// S-ERROR-1: a bad record is an error of its batch, behind a cut too.
TEST(PushFilterTest, ABadRecordIsAnErrorOfItsBatch) {
  PhysicalPlan plan = FilterPlan(8);
  plan.ops.push_back(CheckOp([](uint64_t record) { return record != 28; }));
  const auto push = MakePush(1024);
  const auto pipeline = *OpenPushed(std::move(plan), push, FakeContext(2));
  const FakeData data = MakeFakeData(100);
  const Feeder feeder(push, data);
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.end.code(), Code::kInvalidArgument);
  EXPECT_EQ(stream.digests.size(), 2u);  // of records 0 to 25
  pipeline->Cancel();
}

}  // namespace
}  // namespace millrace::pipeline
