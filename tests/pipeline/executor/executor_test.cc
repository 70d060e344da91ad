#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"

// The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

PhysicalPlan ShuffledPlan(uint64_t batch_size = 11) {
  return MakePlan(batch_size, {Step(Kind::kGlobalShuffle), Step(Kind::kRepeat, 3)});
}

// S-ORDER-1, S-ORDER-4.
TEST(ExecutorTest, RowsAreTheRecordsThatTheOrderNames) {
  const FakeData data = MakeFakeData(25);
  const auto pipeline = OpenFake(ShuffledPlan(), data, FakeContext(2));
  uint64_t index = 0;
  while (true) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    EXPECT_EQ((*batch)->index(), index++);
    const auto hash = (*batch)->Find("hash");
    ASSERT_EQ(hash.shape, (Shape{11, 2}));
    for (int64_t row = 0; row < (*batch)->num_valid_rows(); ++row) {
      const std::string& payload = data.payloads[(*batch)->ids()[row].record];
      EXPECT_EQ(hash.as<int64_t>()[2 * row], static_cast<int64_t>(HashName(payload)));
    }
  }
  EXPECT_EQ(index, 7u);  // ceil(75 / 11)
  EXPECT_EQ(index, pipeline->length().batches);
  EXPECT_FALSE((*pipeline->Next()).has_value());
}

// S-RANDOM-2.
TEST(ExecutorTest, BitsDoNotDependOnThreadsOrPrefetch) {
  const FakeData data = MakeFakeData(300);
  const Stream expected = Drain(*OpenFake(ShuffledPlan(64), data, FakeContext(1)));
  ASSERT_EQ(expected.digests.size(), 15u);
  for (const int threads : {1, 2, 8}) {
    for (int prefetch = 1; prefetch <= 5; ++prefetch) {
      OpenOptions options;
      options.prefetch_batches = prefetch;
      const auto pipeline = OpenFake(ShuffledPlan(64), data, FakeContext(threads), options);
      EXPECT_EQ(Drain(*pipeline).digests, expected.digests) << threads << " " << prefetch;
    }
  }
}

TEST(ExecutorTest, BoundAndCopiedFieldsAgree) {
  const FakeData data = MakeFakeData(40);
  PhysicalPlan unbound = ShuffledPlan();
  unbound.ops[0] = HashOp(/*bind=*/false);
  EXPECT_EQ(Drain(*OpenFake(std::move(unbound), data, FakeContext(2))).digests,
            Drain(*OpenFake(ShuffledPlan(), data, FakeContext(2))).digests);
}

// S-RANK-2.
TEST(ExecutorTest, DigestsOfAllRanksAddUpToOneRank) {
  const FakeData data = MakeFakeData(50);
  const Stream expected = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(2)));
  for (const int world : {2, 3, 4, 11}) {
    std::vector<uint64_t> sums(expected.digests.size(), 0);
    for (int rank = 0; rank < world; ++rank) {
      OpenOptions options;
      options.rank = rank;
      options.world = world;
      const auto part = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(2), options)).digests;
      ASSERT_EQ(part.size(), sums.size());
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    EXPECT_EQ(sums, expected.digests) << "world " << world;
  }
}

// S-STATE-1.
TEST(ExecutorTest, EveryTokenContinuesIdenticallyAtAnotherWorld) {
  const FakeData data = MakeFakeData(20);
  const Stream whole = Drain(*OpenFake(ShuffledPlan(8), data, FakeContext(2)));
  for (size_t i = 0; i < whole.tokens.size(); ++i) {
    ASSERT_LT(whole.tokens[i].size(), 4096u);
    const std::vector<uint64_t> expected(whole.digests.begin() + static_cast<int64_t>(i) + 1,
                                         whole.digests.end());
    std::vector<uint64_t> sums(expected.size(), 0);
    for (int rank = 0; rank < 3; ++rank) {
      OpenOptions options;
      options.rank = rank;
      options.world = 3;
      options.resume_token = whole.tokens[i];
      const Stream tail = Drain(*OpenFake(ShuffledPlan(8), data, FakeContext(2), options));
      ASSERT_EQ(tail.digests.size(), expected.size());
      for (size_t k = 0; k < sums.size(); ++k) sums[k] += tail.digests[k];
      EXPECT_TRUE(std::equal(tail.tokens.begin(), tail.tokens.end(),
                             whole.tokens.begin() + static_cast<int64_t>(i) + 1));
    }
    EXPECT_EQ(sums, expected) << "after batch " << i;
  }
}

absl::Status OpenWithToken(PhysicalPlan plan, const FakeData& data, const std::string& token) {
  OpenOptions options;
  options.resume_token = token;
  return TryOpenFake(std::move(plan), data, FakeContext(1), options).status();
}

// S-STATE-2.
TEST(ExecutorTest, TokenOfAnotherStreamIsRefusedAndSaysWhatDiffers) {
  FakeData data = MakeFakeData(20);
  const std::string token = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(1))).tokens[0];
  const auto expect = [&](PhysicalPlan plan, const FakeData& source) {
    const absl::Status status = OpenWithToken(std::move(plan), source, token);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_MESSAGE(status);
  };
  PhysicalPlan plan = ShuffledPlan();
  plan.plan_fingerprint = 1;
  expect(std::move(plan), data);
  plan = ShuffledPlan();
  plan.semantics_version = 2;
  expect(std::move(plan), data);
  data.fingerprint = 2;
  expect(ShuffledPlan(), data);
}

// S-STATE-2.
TEST(ExecutorTest, DamagedTokensAreInvalid) {
  const FakeData data = MakeFakeData(20);
  const std::string token = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(1))).tokens[0];
  const std::string beyond = token.substr(0, token.find("batch=")) + "batch=";
  for (const std::string& damaged :
       {token + " ", token.substr(1), token.substr(0, token.size() - 1), std::string(5000, 'x'),
        beyond + "99999", beyond + "99999999999999999999999", std::string("\0", 1)}) {
    EXPECT_EQ(OpenWithToken(ShuffledPlan(), data, damaged).code(),
              absl::StatusCode::kInvalidArgument)
        << damaged;
  }
}

// S-BATCH-3.
TEST(ExecutorTest, RaggedLastBatchIsMaskedAndZero) {
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(13), FakeContext(2));
  ASSERT_TRUE(pipeline->Next().ok());
  const auto batch = pipeline->Next();
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_EQ((*batch)->num_rows(), 8);
  EXPECT_EQ((*batch)->num_valid_rows(), 5);
  EXPECT_EQ((*batch)->num_global_valid_rows(), 5);
  EXPECT_TRUE((*batch)->ends_epoch());
  EXPECT_THAT((*batch)->valid(), testing::ElementsAre(1, 1, 1, 1, 1, 0, 0, 0));
  for (const int64_t value : (*batch)->Find("hash").as<int64_t>().subspan(10)) EXPECT_EQ(value, 0);
  for (const float value : (*batch)->Find("noise").as<float>().subspan(15)) EXPECT_EQ(value, 0);
  EXPECT_EQ((*batch)->ids()[7], SampleId());
}

// S-BATCH-3.
TEST(ExecutorTest, RecycledSlabsAreMaskedToo) {
  PhysicalPlan plan = MakePlan(4);
  plan.batch_order = {Step(Kind::kRepeat, 20)};
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(6), FakeContext(2));
  for (int i = 0; i < 40; ++i) {
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok() && batch->has_value());
    EXPECT_EQ((*batch)->num_valid_rows(), i % 2 == 0 ? 4 : 2);
    if (i % 2 == 1) {
      EXPECT_EQ((*batch)->Find("hash").as<int64_t>()[7], 0);
    }
  }
}

// S-BATCH-1.
TEST(ExecutorTest, DropRemainderLeavesOutThePartialBatch) {
  PhysicalPlan plan = MakePlan(8);
  plan.batch.drop_remainder = true;
  EXPECT_EQ(Drain(*OpenFake(std::move(plan), MakeFakeData(13), FakeContext(2))).digests.size(), 1u);
}

// S-ORDER-3.
TEST(ExecutorTest, EmptySourceEndsAtOnceUnlessRepeatedForEver) {
  EXPECT_TRUE(Drain(*OpenFake(ShuffledPlan(), MakeFakeData(0), FakeContext(1))).digests.empty());
  const auto opened =
      TryOpenFake(MakePlan(2, {Step(Kind::kRepeat, 0)}), FakeData(), FakeContext(1));
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
}

// S-RANK-1, S-PLAN-4.
TEST(ExecutorTest, WorldsLargerThanTheBatchAndUnbatchableFieldsAreInvalid) {
  OpenOptions options;
  options.world = 3;
  const auto open = [&](PhysicalPlan plan) {
    return TryOpenFake(std::move(plan), MakeFakeData(4), FakeContext(1), options).status().code();
  };
  EXPECT_EQ(open(MakePlan(2)), absl::StatusCode::kInvalidArgument);
  PhysicalPlan plan = MakePlan(4);
  plan.batch_schema = Schema({{"image", DType::kU8, {Shape::kUnknown, 3}}});
  EXPECT_EQ(open(std::move(plan)), absl::StatusCode::kInvalidArgument);
  plan = MakePlan(uint64_t{1} << 50);
  EXPECT_EQ(open(std::move(plan)), absl::StatusCode::kInvalidArgument);
}

TEST(ExecutorTest, BatchesOutliveThePipelineAndItsContext) {
  std::vector<Batch> batches;
  {
    const auto pipeline = OpenFake(ShuffledPlan(), MakeFakeData(30), FakeContext(2));
    for (int i = 0; i < 3; ++i) batches.push_back(**pipeline->Next());
  }
  const Stream again = Drain(*OpenFake(ShuffledPlan(), MakeFakeData(30), FakeContext(2)));
  for (size_t i = 0; i < batches.size(); ++i) {
    StreamDigest digest;
    digest.Add(batches[i]);
    EXPECT_EQ(digest.value(), again.digests[i]);
  }
}

TEST(ExecutorTest, ManyPipelinesOpenedAndDroppedLeaveNothing) {
  const auto context = FakeContext(4);
  const FakeData data = MakeFakeData(100);
  for (int i = 0; i < 200; ++i) {
    const auto pipeline = OpenFake(ShuffledPlan(), data, context);
    if (i % 3 == 0) {
      ASSERT_TRUE(pipeline->Next().ok());
    }
    if (i % 7 == 0) pipeline->Cancel();
  }
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
  EXPECT_EQ(context->memory_budget()->held_bytes(), 0);
}

TEST(ExecutorTest, PipelinesShareAContextEvenWhenOneIsNotConsumed) {
  const auto context = FakeContext(2, /*budget=*/4096);
  const FakeData data = MakeFakeData(60);
  const auto idle = OpenFake(ShuffledPlan(), data, context);
  const Stream a = Drain(*OpenFake(ShuffledPlan(), data, context));
  EXPECT_TRUE(a.end.ok()) << a.end;
  EXPECT_EQ(Drain(*idle).digests, a.digests);
}

TEST(ExecutorTest, BudgetSmallerThanOneBatchStillProgresses) {
  const FakeData data = MakeFakeData(60);
  const Stream tight = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(2, /*budget=*/1)));
  EXPECT_TRUE(tight.end.ok()) << tight.end;
  EXPECT_EQ(tight.digests, Drain(*OpenFake(ShuffledPlan(), data, FakeContext(2))).digests);
}

// S-ERROR-4.
TEST(ExecutorTest, HeldBatchesExhaustTheBudgetUntilOneIsDropped) {
  const auto context = FakeContext(2, /*budget=*/2000);  // a slab of 11 rows has 896 B
  const auto pipeline = OpenFake(ShuffledPlan(), MakeFakeData(60), context);
  std::vector<Batch> held;
  absl::Status status;
  while (status.ok() && held.size() < 10) {
    auto batch = pipeline->Next();
    status = batch.status();
    if (batch.ok()) held.push_back(**batch);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(IsRetryable(status)) << status;
  ASSERT_FALSE(held.empty());
  const uint64_t next = held.size();
  held.clear();
  const auto batch = pipeline->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->index(), next);
}

TEST(ExecutorTest, ForkedChildIsToldSo) {
  const auto pipeline = OpenFake(ShuffledPlan(), MakeFakeData(30), FakeContext(2));
  ASSERT_TRUE(pipeline->Next().ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto batch = pipeline->Next();
    _exit(batch.status().code() == absl::StatusCode::kFailedPrecondition ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(pipeline->Next().ok());
}

TEST(ExecutorTest, SlabsArePageableAndAligned) {
  EXPECT_EQ(MakeHostAllocator(*FakeContext(1), std::nullopt)->name(), "pageable");
  for (const size_t bytes : {size_t{1}, size_t{4096}, (size_t{5} << 20) + 3}) {
    auto slab = MakePageableAllocator()->Allocate(bytes);
    ASSERT_TRUE(slab.ok());
    const uintptr_t alignment = bytes >= (2u << 20) ? 2u << 20 : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*slab) % alignment, 0u);
    (*slab)[bytes - 1] = std::byte{1};
    MakePageableAllocator()->Free(*slab, bytes);
  }
}

}  // namespace
}  // namespace millrace::pipeline
