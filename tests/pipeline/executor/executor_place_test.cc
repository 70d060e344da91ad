#include "tests/messages.h"
#include "tests/pipeline/cut/cut_plans.h"

// Places of the stream: saved, restored, sought, and those of another stream taken by force. The
// rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;
using Code = absl::StatusCode;

PhysicalPlan ShuffledPlan() {
  return MakePlan(8, {Step(Kind::kGlobalShuffle), Step(Kind::kRepeat, 2)});
}

std::vector<uint64_t> From(const Stream& stream, size_t first) {
  return {stream.digests.begin() + static_cast<int64_t>(first), stream.digests.end()};
}

// S-STATE-20.
TEST(ExecutorPlaceTest, SeekGoesToAnyBatchFromAnywhere) {
  const FakeData data = MakeFakeData(50);
  const Stream whole = Drain(*OpenFake(ShuffledPlan(), data, FakeContext(2)));
  const auto pipeline = OpenFake(ShuffledPlan(), data, FakeContext(2));
  for (const size_t batch : {size_t{5}, size_t{0}, size_t{12}, whole.digests.size(), size_t{3}}) {
    ASSERT_TRUE(pipeline->Seek(batch).ok());
    if (batch < whole.digests.size()) {
      ASSERT_EQ((*pipeline->Next())->index(), batch);
      ASSERT_TRUE(pipeline->Seek(batch).ok());
    }
    EXPECT_EQ(Drain(*pipeline).digests, From(whole, batch)) << batch;
  }
  EXPECT_EQ(pipeline->Seek(whole.digests.size() + 1).code(), Code::kInvalidArgument);
}

// S-STATE-20.
TEST(ExecutorPlaceTest, SaveIsTheTokenOfTheBatchDeliveredLast) {
  const FakeData data = MakeFakeData(50);
  const auto pipeline = OpenFake(ShuffledPlan(), data, FakeContext(2));
  const std::string start = pipeline->Save();
  const auto first = **pipeline->Next();
  EXPECT_EQ(pipeline->Save(), first.resume_token());
  const auto second = **pipeline->Next();
  ASSERT_TRUE(pipeline->Restore(start).ok());
  EXPECT_EQ(pipeline->Save(), start);
  EXPECT_EQ((*pipeline->Next())->index(), 0u);
  ASSERT_TRUE(pipeline->Restore(first.resume_token()).ok());
  EXPECT_EQ(pipeline->Save(), first.resume_token());
  // Batches that were delivered stay as they are.
  StreamDigest before, after;
  before.Add(second);
  after.Add(**pipeline->Next());
  EXPECT_EQ(before.value(), after.value());
}

// S-STATE-20.
TEST(ExecutorPlaceTest, RestoreOfACutGoesOnBehindAnyBatch) {
  const FakeData data = MakeFakeData(90);
  for (const NamedPlan& plan : CutPlans()) {
    const auto pipeline = OpenFake(plan.make(), data, FakeContext(2));
    const std::string start = pipeline->Save();
    const Stream whole = Drain(*pipeline);
    for (size_t i = whole.tokens.size(); i-- > 0;) {
      ASSERT_TRUE(pipeline->Restore(whole.tokens[i]).ok()) << plan.name;
      EXPECT_EQ(Drain(*pipeline).digests, From(whole, i + 1)) << plan.name << " " << i;
    }
    ASSERT_TRUE(pipeline->Restore(start).ok());
    EXPECT_EQ(Drain(*pipeline).digests, whole.digests) << plan.name;
  }
}

// S-STATE-20.
TEST(ExecutorPlaceTest, SeekOfACutSaysToUseTokens) {
  const auto pipeline = OpenFake(FilterPlan(), MakeFakeData(50), FakeContext(2));
  const absl::Status status = pipeline->Seek(2);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_MESSAGE(status);
  EXPECT_TRUE(pipeline->Next().ok());
}

TEST(ExecutorPlaceTest, ATokenThatIsRefusedLeavesTheStreamWhereItWas) {
  const FakeData data = MakeFakeData(50);
  const auto pipeline = OpenFake(FilterPlan(), data, FakeContext(2));
  ASSERT_TRUE(pipeline->Next().ok());
  const std::string token = pipeline->Save();
  std::string damaged = token;
  damaged[damaged.size() - 3] = damaged[damaged.size() - 3] == 'A' ? 'B' : 'A';
  EXPECT_EQ(pipeline->Restore(damaged).code(), Code::kInvalidArgument);
  EXPECT_EQ(pipeline->Restore("nonsense").code(), Code::kInvalidArgument);
  const std::string stateless = token.substr(0, token.find(" state="));
  EXPECT_EQ(pipeline->Restore(stateless).code(), Code::kInvalidArgument);
  EXPECT_EQ((*pipeline->Next())->index(), 1u);
  const auto plain = OpenFake(MakePlan(8), data, FakeContext(1));
  EXPECT_EQ(plain->Restore(token).code(), Code::kInvalidArgument);
}

TEST(ExecutorPlaceTest, AnErrorIsLeftBehindBySeeking) {
  FakeData data = MakeFakeData(50);
  data.bad_crc = {17};
  const auto pipeline = OpenFake(MakePlan(8), data, FakeContext(2));
  EXPECT_FALSE(Drain(*pipeline).end.ok());
  ASSERT_TRUE(pipeline->Seek(3).ok());
  const Stream rest = Drain(*pipeline);
  EXPECT_TRUE(rest.end.ok()) << rest.end;
  EXPECT_EQ(rest.digests.size(), 4u);
}

TEST(ExecutorPlaceTest, ACancelledPipelineStaysCancelled) {
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(50), FakeContext(2));
  pipeline->Cancel();
  EXPECT_EQ(pipeline->Seek(3).code(), Code::kCancelled);
  EXPECT_EQ(pipeline->Next().status().code(), Code::kCancelled);
}

// A context that keeps what is logged as a warning.
std::shared_ptr<Context> LoggingContext(std::vector<std::string>& logged) {
  ContextOptions options;
  options.threads = 1;
  options.io = std::make_shared<FakeIo>();
  options.log = KeepWarnings(logged);
  return *Context::Make(std::move(options));
}

// S-STATE-2, S-STATE-21.
TEST(ExecutorPlaceTest, ForceTakesATokenOfOtherDataAndSaysWhatIsLost) {
  FakeData data = MakeFakeData(50);
  const auto plan = [] { return MakePlan(5, {Step(Kind::kRepeat, 2)}); };
  OpenOptions options;
  options.resume_token = Drain(*OpenFake(plan(), data, FakeContext(1))).tokens[11];
  data.fingerprint = 0x5;
  const std::string before =
      options.resume_token.substr(options.resume_token.find("data=") + 5, 16);
  std::vector<std::string> logged;
  const auto context = LoggingContext(logged);
  EXPECT_EQ(TryOpenFake(plan(), data, context, options).status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(logged.empty());
  options.force_resume = true;
  const auto pipeline = OpenFake(plan(), data, context, options);
  EXPECT_EQ((*pipeline->Next())->index(), 12u);
  const std::string here = absl::StrCat(absl::Hex(pipeline->data_fingerprint()));
  EXPECT_THAT(
      logged,
      testing::ElementsAre(absl::StrCat(
          "resuming by force: the resume token is of another stream; it differs in: data "
          "fingerprint (token ",
          before.substr(before.find_first_not_of('0')), ", here ", here,
          "). The stream goes on with batch 12 of epoch 1. Samples of this epoch before that batch "
          "are not delivered again; of the changed data samples may be missing or come twice. "
          "Results are not those of a run that was not interrupted")));
}

// S-STATE-21.
TEST(ExecutorPlaceTest, ForceNamesBothPlanAndDataAndNoEpochBehindTheEnd) {
  FakeData data = MakeFakeData(50);
  OpenOptions options;
  options.force_resume = true;
  options.resume_token = Drain(*OpenFake(MakePlan(8), data, FakeContext(1))).tokens.back();
  data.fingerprint = 0x5;
  PhysicalPlan other = MakePlan(8);
  other.plan_fingerprint = 0xEF;
  std::vector<std::string> logged;
  const auto pipeline = OpenFake(std::move(other), data, LoggingContext(logged), options);
  EXPECT_FALSE((*pipeline->Next()).has_value());
  EXPECT_THAT(logged, testing::ElementsAre(testing::AllOf(
                          testing::HasSubstr("plan fingerprint (token abcd, here ef), data "),
                          testing::HasSubstr("goes on with batch 7. Samples of this epoch"),
                          testing::HasSubstr("of the changed plan and data samples may be"))));
}

// S-STATE-21.
TEST(ExecutorPlaceTest, ForceDoesNotTakeATokenOfOtherSemantics) {
  const FakeData data = MakeFakeData(50);
  OpenOptions options;
  options.force_resume = true;
  options.resume_token = Drain(*OpenFake(MakePlan(8), data, FakeContext(1))).tokens[1];
  PhysicalPlan newer = MakePlan(8);
  newer.semantics_version = 2;
  std::vector<std::string> logged;
  const auto opened = TryOpenFake(std::move(newer), data, LoggingContext(logged), options);
  EXPECT_EQ(opened.status().code(), Code::kFailedPrecondition);
  EXPECT_MESSAGE(opened.status());
  EXPECT_TRUE(logged.empty());
}

}  // namespace
}  // namespace millrace::pipeline
