#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>

#include "base/metric_table.h"
#include "tests/messages.h"
#include "tests/pipeline/cut/cut_plans.h"

// Plans whose rows are found by looking at records. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

// Records of all valid rows, batch by batch.
std::vector<std::vector<uint64_t>> RecordsOf(Pipeline& pipeline) {
  std::vector<std::vector<uint64_t>> records;
  while (true) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return records;
    records.emplace_back();
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      if ((*batch)->valid()[row] != 0) records.back().push_back((*batch)->ids()[row].record);
    }
  }
}

// S-ORDER-1: what tf.data's filter and batch make of the records, one after the other.
TEST(ExecutorCutTest, RowsAreTheRecordsThatTheFilterKeepsInOrder) {
  const FakeData data = MakeFakeData(100);
  std::vector<std::vector<uint64_t>> expected;
  for (uint64_t i = 0; i < 100; ++i) {
    if (!FilterKeeps(data.payloads[i])) continue;
    if (expected.empty() || expected.back().size() == 8) expected.emplace_back();
    expected.back().push_back(i);
  }
  const auto pipeline = OpenFake(FilterPlan(), data, FakeContext(2));
  EXPECT_FALSE(pipeline->length().known);
  EXPECT_EQ(RecordsOf(*pipeline), expected);
  EXPECT_FALSE((*pipeline->Next()).has_value());
}

// S-RANDOM-2.
TEST(ExecutorCutTest, BitsDoNotDependOnThreadsPrefetchOrBudget) {
  const FakeData data = MakeFakeData(150);
  for (const NamedPlan& plan : CutPlans()) {
    const Stream expected = Drain(*OpenFake(plan.make(), data, FakeContext(1)));
    ASSERT_GT(expected.digests.size(), 3u) << plan.name;
    ASSERT_TRUE(expected.end.ok()) << plan.name << expected.end;
    for (const int threads : {1, 2, 8}) {
      for (const int prefetch : {1, 2, 4}) {
        for (const int64_t budget : {int64_t{1}, int64_t{5000}, int64_t{1} << 30}) {
          OpenOptions options;
          options.prefetch_batches = prefetch;
          const auto pipeline = OpenFake(plan.make(), data, FakeContext(threads, budget), options);
          const Stream stream = Drain(*pipeline);
          EXPECT_EQ(stream.digests, expected.digests)
              << plan.name << " " << threads << " " << prefetch << " " << budget;
          EXPECT_EQ(stream.tokens, expected.tokens) << plan.name;
        }
      }
    }
  }
}

// S-RANK-2, S-CUT-11.
TEST(ExecutorCutTest, DigestsOfAllRanksAddUpToOneRank) {
  const FakeData data = MakeFakeData(150);
  for (const NamedPlan& plan : CutPlans()) {
    const Stream expected = Drain(*OpenFake(plan.make(), data, FakeContext(2)));
    for (const int world : {2, 3, 4, 8}) {
      std::vector<uint64_t> sums(expected.digests.size(), 0);
      for (int rank = 0; rank < world; ++rank) {
        const auto pipeline = OpenFake(plan.make(), data, FakeContext(2), RankOptions(rank, world));
        const std::vector<uint64_t> part = Drain(*pipeline).digests;
        ASSERT_EQ(part.size(), sums.size()) << plan.name << " world " << world;
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
      }
      EXPECT_EQ(sums, expected.digests) << plan.name << " world " << world;
    }
  }
}

// S-STATE-1, S-STATE-10.
TEST(ExecutorCutTest, EveryTokenContinuesIdenticallyAtAnotherWorld) {
  const FakeData data = MakeFakeData(90);
  for (const NamedPlan& plan : CutPlans()) {
    const Stream whole = Drain(*OpenFake(plan.make(), data, FakeContext(2)));
    for (size_t i = 0; i < whole.tokens.size(); ++i) {
      const std::vector<uint64_t> expected(whole.digests.begin() + static_cast<int64_t>(i) + 1,
                                           whole.digests.end());
      std::vector<uint64_t> sums(expected.size(), 0);
      for (int rank = 0; rank < 3; ++rank) {
        OpenOptions options = RankOptions(rank, 3);
        options.resume_token = whole.tokens[i];
        const Stream tail = Drain(*OpenFake(plan.make(), data, FakeContext(2), options));
        ASSERT_EQ(tail.digests.size(), expected.size()) << plan.name << " " << i << tail.end;
        for (size_t k = 0; k < sums.size(); ++k) sums[k] += tail.digests[k];
        EXPECT_TRUE(std::equal(tail.tokens.begin(), tail.tokens.end(),
                               whole.tokens.begin() + static_cast<int64_t>(i) + 1));
      }
      EXPECT_EQ(sums, expected) << plan.name << " after batch " << i;
    }
  }
}

// S-CUT-11.
TEST(ExecutorCutTest, MoreRanksThanLanesAreRefusedWithTheAdvice) {
  const auto opened = TryOpenFake(FilterPlan(16, 2, {Step(OrderStep::Kind::kRepeat)}),
                                  MakeFakeData(10), FakeContext(1), RankOptions(0, 4));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(opened.status());
}

// S-BATCH-20.
TEST(ExecutorCutTest, PaddedRowsHoldTheirValuesAndTheFill) {
  const FakeData data = MakeFakeData(30);
  const auto pipeline = OpenFake(TokensPlan(BatchSpec::Kind::kPadded), data, FakeContext(2));
  int64_t rows = 0;
  while (true) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    const ConstTensorView tokens = (*batch)->Find("tokens");
    ASSERT_EQ(tokens.shape.rank(), 2);
    int64_t largest = 0;
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      const bool valid = (*batch)->valid()[row] != 0;
      const uint64_t record = (*batch)->ids()[row].record;
      const int64_t count = valid ? NumTokens(data.payloads[record]) : 0;
      const auto size = static_cast<int64_t>(data.payloads[record].size());
      largest = std::max(largest, count);
      for (int64_t i = 0; i < tokens.shape[1]; ++i) {
        const int64_t expected = !valid ? 0 : i < count ? 100 * size + i : -1;
        EXPECT_EQ(tokens.as<int64_t>()[row * tokens.shape[1] + i], expected);
      }
      rows += valid ? 1 : 0;
    }
    EXPECT_EQ(tokens.shape[1], largest);
  }
  EXPECT_EQ(rows, 30);
}

// S-BATCH-21.
TEST(ExecutorCutTest, RaggedRowsFollowEachOther) {
  const FakeData data = MakeFakeData(30);
  const auto pipeline = OpenFake(TokensPlan(BatchSpec::Kind::kRagged), data, FakeContext(2));
  while (true) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    const auto tokens = (*batch)->Find("tokens").as<int64_t>();
    const auto splits = (*batch)->Find("tokens/row_splits").as<int64_t>();
    ASSERT_EQ(splits.size(), 9u);
    EXPECT_EQ(splits[0], 0);
    EXPECT_EQ(splits[8], static_cast<int64_t>(tokens.size()));
    for (int64_t row = 0; row < 8; ++row) {
      const bool valid = (*batch)->valid()[row] != 0;
      const std::string& payload = data.payloads[(*batch)->ids()[row].record];
      ASSERT_EQ(splits[row + 1] - splits[row], valid ? NumTokens(payload) : 0);
      for (int64_t i = splits[row]; i < splits[row + 1]; ++i) {
        EXPECT_EQ(tokens[i], 100 * static_cast<int64_t>(payload.size()) + i - splits[row]);
      }
    }
  }
}

// S-BATCH-11.
TEST(ExecutorCutTest, BucketsHoldRowsOfTheirLengths) {
  const FakeData data = MakeFakeData(100);
  const auto pipeline = OpenFake(TokensPlan(BatchSpec::Kind::kBucket), data, FakeContext(2));
  size_t rows = 0;
  while (true) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    std::vector<int> buckets;
    for (int64_t row = 0; row < (*batch)->num_valid_rows(); ++row) {
      const int64_t length = NumTokens(data.payloads[(*batch)->ids()[row].record]);
      buckets.push_back(length < 2 ? 0 : length < 5 ? 1 : 2);
    }
    rows += buckets.size();
    EXPECT_EQ(std::ranges::count(buckets, buckets[0]), static_cast<int64_t>(buckets.size()));
    EXPECT_EQ((*batch)->num_rows(), buckets[0] == 0 ? 16 : 8);
  }
  EXPECT_EQ(rows, 100u);
}

// S-ERROR-1: an error of pass 1 has the place of the row.
TEST(ExecutorCutTest, ErrorsOfPassOneAreThoseOfTheBatchThatHoldsTheRow) {
  FakeData data = MakeFakeData(60);
  data.bad_crc = {33, 34};
  for (const int threads : {1, 4}) {
    const auto context = FakeContext(threads);
    const auto pipeline = OpenFake(FilterPlan(), data, context);
    const Stream stream = Drain(*pipeline);
    // Of records 0 to 32, 19 are kept: 33 is row 19.
    EXPECT_EQ(stream.digests.size(), 2u);
    EXPECT_EQ(stream.end.code(), absl::StatusCode::kDataLoss);
    const auto error = GetRecordError(stream.end);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->file, "shard-4");
    EXPECT_EQ(error->ordinal, 5);
    EXPECT_EQ(error->position, 19) << stream.end;
    EXPECT_EQ(error->reason, RecordErrorReason::kDataCrc);
    EXPECT_MESSAGE(stream.end);
    EXPECT_EQ(pipeline->Next().status(), stream.end);
    EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 2);
  }
}

// S-ERROR-1, S-ERROR-3.
TEST(ExecutorCutTest, OfBothPassesTheLowestRowWins) {
  FakeData data = MakeFakeData(60);
  data.io_errors = {13};  // row 7 of the stream
  PhysicalPlan plan = FilterPlan(16);
  plan.ops.push_back(CheckOp([](uint64_t record) { return record != 8 && record != 18; }));
  const Stream stream = Drain(*OpenFake(std::move(plan), data, FakeContext(3)));
  EXPECT_TRUE(stream.digests.empty());
  ASSERT_TRUE(GetRecordError(stream.end).has_value()) << stream.end;
  EXPECT_EQ(GetRecordError(stream.end)->position, 4) << stream.end;
  EXPECT_MESSAGE(stream.end);
}

// S-USER-3.
TEST(ExecutorCutTest, ExceptionsOfPassOneAreErrorsOfTheRowsThatThrow) {
  PhysicalPlan plan = FilterPlan();
  AddExamineOp(plan,
               MakeRowOp("thrower", "", DType::kU8, [](millrace::Run& run, Column*, int64_t row) {
                 if (run.id(row).record == 31) throw std::runtime_error("deliberate");
               }));
  const Stream stream = Drain(*OpenFake(std::move(plan), MakeFakeData(60), FakeContext(3)));
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kInternal);
  EXPECT_MESSAGE(stream.end);
  EXPECT_EQ(GetRecordError(stream.end)->ordinal, 3);
}

TEST(ExecutorCutTest, PassOneLooksNoFurtherThanTheRingAsksFor) {
  const auto context = FakeContext(2);
  {
    PhysicalPlan plan = FilterPlan(8, 1, {Step(Kind::kRepeat, 0)});
    const auto pipeline = OpenFake(std::move(plan), MakeFakeData(1000), context);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(pipeline->Next().ok());
  }
  // Seven batches of 8 rows and a run for each that may be under way; not thousands.
  EXPECT_LT(context->metrics().counter(metric::kRecordsExamined).value(), 20'000);
}

TEST(ExecutorCutTest, PipelinesDroppedAtAnyTimeLeaveNothing) {
  const auto context = FakeContext(4);
  const FakeData data = MakeFakeData(100);
  int i = 0;
  for (int round = 0; round < 20; ++round) {
    for (const NamedPlan& plan : CutPlans()) {
      const auto pipeline = OpenFake(plan.make(), data, context);
      for (int batches = 0; batches < i % 4; ++batches) ASSERT_TRUE(pipeline->Next().ok());
      if (++i % 5 == 0) pipeline->Cancel();
    }
  }
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
  EXPECT_EQ(context->memory_budget()->held_bytes(), 0);
}

// S-ERROR-4.
TEST(ExecutorCutTest, HeldBatchesExhaustTheBudgetUntilTheyAreDropped) {
  const auto context = FakeContext(2, /*budget=*/3000);
  const auto pipeline = OpenFake(TokensPlan(BatchSpec::Kind::kPadded), MakeFakeData(100), context);
  std::vector<Batch> held;
  absl::Status status;
  while (status.ok() && held.size() < 12) {
    auto batch = pipeline->Next();
    status = batch.status();
    if (batch.ok()) held.push_back(**batch);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(IsRetryable(status)) << status;
  const uint64_t next = held.size();
  held.clear();
  const auto batch = pipeline->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->index(), next);
}

TEST(ExecutorCutTest, CutsShareAContextThoughOneIsNotConsumed) {
  const auto context = FakeContext(2, /*budget=*/4096);
  const FakeData data = MakeFakeData(100);
  const auto idle = OpenFake(FilterPlan(), data, context);
  const Stream stream = Drain(*OpenFake(FilterPlan(), data, context));
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  EXPECT_EQ(Drain(*idle).digests, stream.digests);
}

TEST(ExecutorCutTest, AFilterThatKeepsNothingEndsTheStream) {
  PhysicalPlan plan = FilterPlan(8, 4);
  AddFilter(plan, "size > 1000");
  const Stream stream = Drain(*OpenFake(std::move(plan), MakeFakeData(100), FakeContext(2)));
  EXPECT_TRUE(stream.end.ok()) << stream.end;
  EXPECT_TRUE(stream.digests.empty());
  EXPECT_TRUE(Drain(*OpenFake(FilterPlan(), MakeFakeData(0), FakeContext(1))).digests.empty());
}

}  // namespace
}  // namespace millrace::pipeline
