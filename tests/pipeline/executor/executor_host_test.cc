#include <atomic>
#include <latch>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/metric_table.h"
#include "pipeline/executor/executor.h"
#include "pipeline/op_table.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"

// The host program's ops, and limits that it sets and changes while a stream runs. The rules cited
// are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using Code = absl::StatusCode;

// S-USER-3: which rows share a run never shows.
TEST(ExecutorHostTest, ExceptionsAreErrorsOfTheRowsThatThrow) {
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
    EXPECT_MESSAGE(stream.end);
    EXPECT_EQ(GetRecordError(stream.end)->position, 37);
  }
  EXPECT_EQ(context->metrics().counter(metric::kRecordsBad).value(), 10);
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
TEST(ExecutorHostTest, BatchOpsWorkOnFilledBatchesInOrder) {
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
    if (--to_hold_ >= 0) released_->wait();
    std::this_thread::yield();  // a chance for others
    --now_;
  }
  // Each of the next `rows` rows waits for the others of them; once.
  void Meet(int rows) {
    meeting_.emplace(rows);
    to_meet_ = rows;
  }
  // The next `rows` rows wait for Release; once.
  void Hold(int rows) {
    released_.emplace(1);
    to_hold_ = rows;
  }
  void Release() { released_->count_down(); }
  int now() const { return now_; }
  int TakeMost() { return most_.exchange(0); }

 private:
  std::atomic<int> now_{0}, most_{0}, to_meet_{0}, to_hold_{0};
  std::optional<std::latch> meeting_, released_;
};

TEST(ExecutorHostTest, TheCpuBudgetIsNeverExceeded) {
  constexpr int kThreads = 8;
  for (const int budget : {1, 2}) {
    Gauge gauge;
    gauge.Hold(budget);
    PhysicalPlan plan = MakePlan(4);
    plan.ops.push_back(CheckOp([&](uint64_t) {
      gauge.Enter();
      return true;
    }));
    OpenOptions options;
    options.cpu_budget = budget;
    const auto context = FakeContext(kThreads);
    const auto pipeline = OpenFake(std::move(plan), MakeFakeData(100, 200 << 10), context, options);
    while (gauge.now() < budget) std::this_thread::yield();
    // While these rows are held all other workers are free, for they meet; no row has one.
    const auto met = std::make_shared<std::latch>(kThreads - budget + 1);
    for (int i = 0; i < kThreads - budget; ++i) {
      context->workers().Enqueue([met] { met->arrive_and_wait(); });
    }
    met->arrive_and_wait();
    EXPECT_EQ(gauge.now(), budget);
    gauge.Release();
    EXPECT_EQ(Drain(*pipeline).digests.size(), 25u);
    EXPECT_EQ(gauge.TakeMost(), budget);
  }
}

TEST(ExecutorHostTest, TargetsAreObeyedWhenTheyShrinkAndGrow) {
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
  executor.SetGoals(1, 1);
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
  executor.SetGoals(100, 100);
  take(40);
  EXPECT_EQ(gauge.TakeMost(), kThreads);
  while (rows < (asked + kRing) * kBatch) std::this_thread::yield();  // before anybody asks
  executor.SetGoals(1, 1);
  take(10);  // the ring holds 8 that were made before
  ring = 1;
  gauge.TakeMost();
  take(10);
  EXPECT_EQ(gauge.TakeMost(), 1);
}

}  // namespace
}  // namespace millrace::pipeline
