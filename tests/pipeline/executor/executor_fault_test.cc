#include <algorithm>
#include <latch>
#include <random>
#include <thread>

#include "base/metric_table.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Errors, cancellation and shutdown. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

constexpr size_t kRunOfItsOwn = 200 << 10;  // bytes of a record: two do not fit into one run

// S-ERROR-1, -2.
TEST(ExecutorFaultTest, BadChecksumTakesThePlaceOfItsBatchForEver) {
  FakeData data = MakeFakeData(40);
  data.bad_crc = {17, 19, 30};
  const auto context = FakeContext(4);
  const auto pipeline = OpenFake(MakePlan(8), data, context);
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kDataLoss);
  const auto error = GetRecordError(stream.end);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file, "shard-2");
  EXPECT_EQ(error->ordinal, 3);
  EXPECT_EQ(error->position, 17);
  EXPECT_EQ(error->reason, RecordErrorReason::kDataCrc);
  EXPECT_EQ(pipeline->Next().status(), stream.end);
  // Those of the batch that is the error, for any timing: 17 and 19, not 30.
  EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 2);
}

TEST(ExecutorFaultTest, LocateNamesTheRecordOfARow) {
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(40), FakeContext(2));
  std::optional<Batch> batch;
  for (int i = 0; i < 3; ++i) batch = *pipeline->Next();
  const RecordError where = pipeline->Locate(batch->ids()[1]);  // position 17
  EXPECT_EQ(where.file, "shard-2");
  EXPECT_EQ(where.ordinal, 3);
  EXPECT_GE(where.offset, 0);
}

// S-ERROR-3.
TEST(ExecutorFaultTest, ReadErrorsNameTheRecordHoweverReadsAreJoined) {
  for (const bool short_read : {false, true}) {
    FakeData data = MakeFakeData(40);
    (short_read ? data.short_reads : data.io_errors) = {18};
    const Stream stream = Drain(*OpenFake(MakePlan(40), data, FakeContext(2)));
    EXPECT_FALSE(stream.end.ok());
    if (short_read) {
      EXPECT_EQ(stream.end.code(), absl::StatusCode::kDataLoss);
    }
    const auto error = GetRecordError(stream.end);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->position, 18) << stream.end;
    EXPECT_EQ(error->ordinal, 4);
    EXPECT_MESSAGE(stream.end);
  }
}

// S-ERROR-2, S-ORDER-5.
TEST(ExecutorFaultTest, OpErrorsNameStageFileAndPosition) {
  PhysicalPlan plan = MakePlan(5, {Step(Kind::kSkip, 3)});
  plan.ops.push_back(CheckOp([](uint64_t record) { return record != 20; }));
  const Stream stream = Drain(*OpenFake(std::move(plan), MakeFakeData(40), FakeContext(2)));
  EXPECT_EQ(stream.digests.size(), 3u);
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(stream.end);
  EXPECT_EQ(GetRecordError(stream.end)->position, 17);
}

// S-ERROR-4: the code of an op is its own affair, and nothing that is dropped mends the row.
TEST(ExecutorFaultTest, ResourceExhaustedOfARowIsFinalAndNotRetryable) {
  PhysicalPlan plan = MakePlan(5);
  plan.ops.push_back(MakeRowOp("cap", "", DType::kU8, [](millrace::Run& run, Column*, int64_t row) {
    if (run.id(row).record == 12) run.Fail(row, absl::ResourceExhaustedError("over its cap"));
  }));
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(40), FakeContext(2));
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kResourceExhausted) << stream.end;
  EXPECT_FALSE(IsRetryable(stream.end));
  EXPECT_EQ(GetRecordError(stream.end)->position, 12);
  EXPECT_EQ(pipeline->Next().status(), stream.end);
}

// S-PLAN-4.
TEST(ExecutorFaultTest, WrongShapeIsAnErrorOfItsRow) {
  PhysicalPlan plan = MakePlan(5);
  plan.batch_schema.Set({"hash", DType::kI64, {3}});
  const Stream stream = Drain(*OpenFake(std::move(plan), MakeFakeData(10), FakeContext(2)));
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetRecordError(stream.end)->position, 0);
}

// S-ERROR-1: rows fail in every order of time; the lowest position wins.
TEST(ExecutorFaultTest, LowestPositionWinsThoughItFailsLast) {
  constexpr uint64_t kRows = 8;
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint64_t> order(kRows);  // in which rows finish
    for (uint64_t i = 0; i < kRows; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    if (round == 0) std::ranges::sort(order, std::greater<>());
    auto finished = std::make_unique<std::vector<std::unique_ptr<std::latch>>>();
    for (uint64_t i = 0; i < kRows; ++i) finished->push_back(std::make_unique<std::latch>(1));
    PhysicalPlan plan = MakePlan(kRows);
    plan.ops.push_back(CheckOp([&](uint64_t record) {
      const auto turn = std::ranges::find(order, record);
      if (turn != order.begin()) (*finished)[*(turn - 1)]->wait();
      (*finished)[record]->count_down();
      return record < 2;  // rows 2 to 7 are bad
    }));
    const FakeData data = MakeFakeData(kRows, kRunOfItsOwn);
    const Stream stream = Drain(*OpenFake(std::move(plan), data, FakeContext(8)));
    ASSERT_TRUE(GetRecordError(stream.end).has_value()) << stream.end;
    EXPECT_EQ(GetRecordError(stream.end)->position, 2) << "round " << round;
  }
}

// S-ERROR-1.
TEST(ExecutorFaultTest, EarlierBatchesAreDeliveredThoughALaterOneFailedFirst) {
  std::latch failed(1);
  PhysicalPlan plan = MakePlan(1);
  plan.prefetch_batches = 4;
  plan.ops.push_back(CheckOp([&](uint64_t record) {
    if (record == 0) failed.wait();
    if (record == 2) failed.count_down();
    return record != 2;
  }));
  const Stream stream = Drain(*OpenFake(std::move(plan), MakeFakeData(9), FakeContext(4)));
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(GetRecordError(stream.end)->position, 2);
}

TEST(ExecutorFaultTest, CancelEndsAWaitingNextAtOnce) {
  std::latch entered(1), release(1);
  PhysicalPlan plan = MakePlan(4);
  plan.ops.push_back(CheckOp([&](uint64_t record) {
    if (record == 0) {
      entered.count_down();
      release.wait();
    }
    return true;
  }));
  auto pipeline = OpenFake(std::move(plan), MakeFakeData(20), FakeContext(2));
  std::thread canceller([&] {
    entered.wait();
    pipeline->Cancel();
  });
  EXPECT_EQ(pipeline->Next().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(pipeline->Next().status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  release.count_down();
  pipeline.reset();
}

TEST(ExecutorFaultTest, DestructionWaitsForItsOwnWorkOnly) {
  const auto context = FakeContext(4);
  std::latch other_entered(1), other_release(1);
  PhysicalPlan blocked = MakePlan(1);
  blocked.prefetch_batches = 1;
  blocked.ops.push_back(CheckOp([&](uint64_t) {
    other_entered.count_down();
    other_release.wait();
    return true;
  }));
  const auto other = OpenFake(std::move(blocked), MakeFakeData(1), context);
  other_entered.wait();
  for (int i = 0; i < 20; ++i) OpenFake(MakePlan(8), MakeFakeData(50), context).reset();
  other_release.count_down();
  EXPECT_TRUE(other->Next().ok());
}

}  // namespace
}  // namespace millrace::pipeline
