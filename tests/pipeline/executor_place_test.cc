#include <atomic>
#include <latch>
#include <optional>
#include <stdexcept>
#include <thread>

#include "pipeline/op_table.h"
#include "tests/pipeline/cut_plans.h"
#include "tests/pipeline/push_fixture.h"

// Places of the stream, sources of every kind, ops of the host program, and limits that change
// while a stream runs. The rules cited are those of docs/semantics.md.

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
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("resume token"));
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
  options.log = [&](LogLevel level, std::string_view message) {
    EXPECT_EQ(level, LogLevel::kWarning);
    logged.emplace_back(message);
  };
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
  EXPECT_THAT(std::string(opened.status().message()), testing::HasSubstr("semantics_version"));
  EXPECT_TRUE(logged.empty());
}

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
TEST(ExecutorPlaceTest, ARangeIsItsNumbersAndReadsNothing) {
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
  EXPECT_EQ(context->metrics().counter("millrace_bytes_read_total").value(), 0);
}

// S-ORDER-20, S-ORDER-21.
TEST(ExecutorPlaceTest, JoinedSourcesAreNumberedThrough) {
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
TEST(ExecutorPlaceTest, EveryRangeOfAJoinBeginsAtZero) {
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
TEST(ExecutorPlaceTest, PushedRecordsComeAsBatchesAndTheLastOneIsPartial) {
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
TEST(ExecutorPlaceTest, PushedRecordsAreTakenSkippedAndShardedAsThoseOfAFileAre) {
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
TEST(ExecutorPlaceTest, AFailedPushSourceIsAnErrorBehindItsRecords) {
  auto push = PushSource::Make();
  auto pipeline = *OpenPushed(MakePlan(4), push, FakeContext(2));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(push->Push("payload").ok());
  push->Fail(absl::UnavailableError("the feeder is gone"));
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.digests.size(), 2u);
  EXPECT_EQ(stream.end.code(), Code::kUnavailable);
}

// S-ORDER-22.
TEST(ExecutorPlaceTest, CancelEndsAWaitForPushedRecords) {
  const auto context = FakeContext(2);
  auto push = PushSource::Make();
  auto pipeline = *OpenPushed(MakePlan(4), push, context);
  const Counter& waits = context->metrics().counter("millrace_consumer_waits_total");
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

// S-USER-3: which rows share a run never shows.
TEST(ExecutorPlaceTest, ExceptionsAreErrorsOfTheRowsThatThrow) {
  const auto context = FakeContext(3);
  for (int round = 0; round < 5; ++round) {
    PhysicalPlan plan = MakePlan(16);
    plan.ops.push_back(CheckOp([](uint64_t record) {
      if (record == 37) throw std::runtime_error("deliberate");
      if (record == 41) throw 17;
      return true;
    }));
    const Stream stream = Drain(*OpenFake(std::move(plan), MakeFakeData(100), context));
    EXPECT_EQ(stream.digests.size(), 2u);
    EXPECT_EQ(stream.end.code(), Code::kInternal);
    EXPECT_THAT(std::string(stream.end.message()),
                testing::AllOf(testing::HasSubstr("stage \"check\""),
                               testing::HasSubstr("exception: deliberate")));
    EXPECT_EQ(GetRecordError(stream.end)->position, 37);
  }
  EXPECT_EQ(context->metrics().counter("millrace_records_bad_total").value(), 10);
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
}

class NegateOp final : public BatchOp {
 public:
  explicit NegateOp(uint64_t bad_batch) : bad_batch_(bad_batch) {}
  absl::StatusOr<Schema> Resolve(const Schema& schema) override { return schema; }
  absl::Status Apply(BatchView& batch) const override {
    if (batch.index == bad_batch_) throw std::runtime_error("deliberate");
    for (int64_t& value : batch.Find("hash").as<int64_t>()) value = -value;
    return absl::OkStatus();
  }

 private:
  const uint64_t bad_batch_;
};

// S-USER-5.
TEST(ExecutorPlaceTest, BatchOpsWorkOnFilledBatchesInOrder) {
  auto table = std::make_shared<OpTable>();
  ASSERT_TRUE(
      table
          ->RegisterBatch("negate", 1,
                          [](const OpArgs& args) -> absl::StatusOr<std::unique_ptr<BatchOp>> {
                            return std::make_unique<NegateOp>(args.options == "bad" ? 2 : 99);
                          })
          .ok());
  const FakeData data = MakeFakeData(30);
  OpenOptions options;
  options.ops = table;
  for (const std::string& text : {std::string(), std::string("bad")}) {
    PhysicalPlan plan = MakePlan(8);
    plan.batch_ops.push_back({.stage = "mine", .op = "negate", .version = 1, .options = text});
    const auto pipeline = OpenFake(std::move(plan), data, FakeContext(2), options);
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ((*batch)->Find("hash").as<int64_t>()[2],
              -static_cast<int64_t>(HashName(data.payloads[1])));
    const Stream rest = Drain(*pipeline);
    EXPECT_EQ(rest.digests.size(), text.empty() ? 3u : 1u);
    EXPECT_EQ(rest.end.code(), text.empty() ? Code::kOk : Code::kInternal) << rest.end;
  }
  PhysicalPlan plan = MakePlan(8);
  plan.batch_ops.push_back({.stage = "mine", .op = "negate", .version = 1, .options = ""});
  EXPECT_EQ(TryOpenFake(std::move(plan), data, FakeContext(1)).status().code(),
            Code::kInvalidArgument);
}

// Counts how many rows are worked on at once.
class Gauge {
 public:
  void Enter() {
    const int now = ++now_;
    int most = most_.load();
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
    if (--to_meet_ >= 0) meeting_->arrive_and_wait();
    for (int i = 0; i < 200; ++i) std::this_thread::yield();
    --now_;
  }
  // Each of the next `rows` rows waits for the others of them; once.
  void Meet(int rows) {
    meeting_.emplace(rows);
    to_meet_ = rows;
  }
  int TakeMost() { return most_.exchange(0); }

 private:
  std::atomic<int> now_{0}, most_{0}, to_meet_{0};
  std::optional<std::latch> meeting_;
};

TEST(ExecutorPlaceTest, TheCpuBudgetIsNeverExceeded) {
  for (const int budget : {1, 2}) {
    Gauge gauge;
    PhysicalPlan plan = MakePlan(4);
    plan.ops.push_back(CheckOp([&](uint64_t) {
      gauge.Enter();
      return true;
    }));
    OpenOptions options;
    options.cpu_budget = budget;
    const Stream stream =
        Drain(*OpenFake(std::move(plan), MakeFakeData(100, 200 << 10), FakeContext(8), options));
    EXPECT_EQ(stream.digests.size(), 25u);
    EXPECT_LE(gauge.TakeMost(), budget);
  }
}

TEST(ExecutorPlaceTest, TargetsAreObeyedWhenTheyShrinkAndGrow) {
  constexpr int kThreads = 8;
  constexpr uint64_t kRing = 8, kBatch = 4;
  Gauge gauge;
  std::atomic<uint64_t> asked{0}, ring{1};  // test -> workers: batches
  std::atomic<uint64_t> rows{0};            // workers -> test
  PhysicalPlan plan = MakePlan(kBatch);
  plan.prefetch_batches = kRing;
  plan.ops.push_back(CheckOp([&](uint64_t record) {
    EXPECT_LT(record / kBatch, asked + ring);
    gauge.Enter();
    ++rows;
    return true;
  }));
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(MakeFakeData(400, 100 << 10)));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), FakeContext(kThreads), {});
  ASSERT_TRUE(parts.ok()) << parts.status();
  Executor executor(*std::move(parts));
  executor.SetTargets(1, 1);
  ASSERT_TRUE(executor.Start({}).ok());
  const auto take = [&](int batches) {
    for (int i = 0; i < batches; ++i) {
      const uint64_t index = asked++;
      const auto batch = executor.Next();
      ASSERT_TRUE(batch.ok() && batch->has_value());
      EXPECT_EQ((*batch)->index(), index);
    }
  };
  take(20);
  EXPECT_EQ(gauge.TakeMost(), 1);
  gauge.Meet(kThreads);
  ring = kRing;
  executor.SetTargets(100, 100);
  take(40);
  EXPECT_EQ(gauge.TakeMost(), kThreads);
  while (rows < (asked + kRing) * kBatch) std::this_thread::yield();  // before anybody asks
  executor.SetTargets(1, 1);
  take(10);  // the ring holds 8 that were made before
  ring = 1;
  gauge.TakeMost();
  take(10);
  EXPECT_EQ(gauge.TakeMost(), 1);
}

}  // namespace
}  // namespace millrace::pipeline
