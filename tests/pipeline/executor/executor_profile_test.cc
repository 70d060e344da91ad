#include <atomic>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>

#include "base/metric_table.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/pipeline/source/push_fixture.h"

// What a pipeline says that it spent its time on. Where a cause is wanted, something is held up
// until the profile names it.

namespace millrace::pipeline {
namespace {

// Nobody passes before it is opened.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() {
    if (!opened_.test_and_set()) open_.count_down();
  }
  void Pass() { open_.wait(); }

 private:
  std::atomic_flag opened_;
  std::latch open_{1};
};

std::shared_ptr<Context> GatedContext(int threads, Gate& reads, int64_t budget = int64_t{1} << 30) {
  ContextOptions options;
  options.threads = threads;
  options.memory_budget_bytes = budget;
  options.io = std::make_shared<ThreadedIo>(
      1, ThreadedIo::Habits{.pick = [](size_t) { return size_t{0}; },
                            .before_read = [&reads](const ReadRequest&) { reads.Pass(); }});
  return *Context::Make(std::move(options));
}

int64_t Ns(const PipelineProfile& profile, WaitCause cause) {
  return profile.wait_ns[static_cast<size_t>(cause)];
}

// Waits for a batch in a thread of its own, until the profile says that some time was spent on
// `cause`; then opens the gate and drains the stream.
void ExpectCause(Pipeline& pipeline, WaitCause cause, Gate& gate) {
  std::thread consumer([&] { Drain(pipeline); });
  while (Ns(pipeline.Profile(), cause) == 0) std::this_thread::yield();
  gate.Open();
  consumer.join();
  EXPECT_GT(Ns(pipeline.Profile(), cause), 0);
}

PhysicalPlan PlanWith(PhysicalOp op, uint64_t batch_size = 8) {
  PhysicalPlan plan = MakePlan(batch_size);
  plan.ops.push_back(std::move(op));
  return plan;
}

TEST(ExecutorProfileTest, PartsAddUpToTheWhole) {
  const auto context = FakeContext(2);
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(100), context);
  const Stream stream = Drain(*pipeline);
  ASSERT_TRUE(stream.end.ok()) << stream.end;
  const PipelineProfile profile = pipeline->Profile();
  EXPECT_EQ(profile.batches, 13);
  EXPECT_EQ(profile.rows, 100);
  EXPECT_EQ(profile.worked_rows, 100);
  EXPECT_EQ(profile.workers, 2);
  EXPECT_GT(profile.elapsed_ns, 0);
  EXPECT_GE(profile.goal_ns, profile.elapsed_ns);
  EXPECT_LE(profile.goal_ns, 2 * profile.elapsed_ns);

  Metrics& metrics = context->metrics();
  EXPECT_EQ(profile.wait_total_ns(), metrics.histogram(metric::kConsumerWaitSeconds).sum());
  EXPECT_EQ(profile.waits, metrics.counter(metric::kConsumerWaits).value());
  EXPECT_EQ(profile.work_ns, metrics.counter(metric::kWorkSeconds).value());
  EXPECT_EQ(profile.reads.bytes, metrics.counter(metric::kBytesRead).value());

  int64_t busy_ns = 0;
  for (const ItemTimes& kind : profile.items) busy_ns += kind.busy_ns;
  EXPECT_EQ(busy_ns, profile.busy_ns);
  EXPECT_LE(profile.work_ns, profile.items[static_cast<size_t>(ItemKind::kProcess)].busy_ns);
  ASSERT_EQ(profile.ops.size(), 4u);  // source, hash, noise, batch
  int64_t op_ns = 0;
  for (const OpProfile& op : profile.ops) {
    EXPECT_GT(op.sampled_runs, 0) << op.stage;
    EXPECT_EQ(op.row_ns.count(), static_cast<uint64_t>(op.sampled_runs)) << op.stage;
    op_ns += op.busy_ns;
  }
  EXPECT_LE(op_ns, profile.work_ns);
  EXPECT_GT(op_ns, profile.work_ns - 4);
  EXPECT_EQ(profile.reads.in_flight, 0);
  EXPECT_EQ(profile.reads.groups, static_cast<int64_t>(profile.reads.group_ns.count()));
  EXPECT_GT(profile.memory.highest_bytes, 0);
  EXPECT_EQ(profile.memory.limit_bytes, int64_t{1} << 30);
}

TEST(ExecutorProfileTest, AStreamThatMovesCountsAnew) {
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(100), FakeContext(2));
  Drain(*pipeline);
  ASSERT_TRUE(pipeline->Seek(10).ok());
  Drain(*pipeline);
  EXPECT_EQ(pipeline->Profile().batches, 3);
  EXPECT_EQ(pipeline->Profile().rows, 20);
}

TEST(ExecutorProfileTest, ABatchThatIsReadyIsHandedOver) {
  OpenOptions options;
  options.prefetch_batches = 1;
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(40), FakeContext(1), options);
  while (pipeline->Profile().ready_ns == 0) std::this_thread::yield();
  ASSERT_TRUE(pipeline->Next()->has_value());  // the first call is measured
  EXPECT_EQ(pipeline->Profile().hand_over.calls, 1);
  EXPECT_GT(pipeline->Profile().hand_over.ns, 0);
  ASSERT_TRUE(pipeline->Seek(0).ok());
  EXPECT_EQ(pipeline->Profile().hand_over.calls, 0);
}

TEST(ExecutorProfileTest, ACallThatWaitsIsNoHandOver) {
  Gate gate;
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(8), GatedContext(2, gate));
  std::thread consumer([&] { EXPECT_TRUE(pipeline->Next()->has_value()); });
  while (pipeline->Profile().wait_total_ns() == 0) std::this_thread::yield();
  gate.Open();
  consumer.join();
  EXPECT_EQ(pipeline->Profile().hand_over.calls, 0);
}

TEST(ExecutorProfileTest, TheSlowestRowsHaveTheirPlace) {
  const FakeData data = MakeFakeData(100);
  const auto pipeline = OpenFake(MakePlan(8), data, FakeContext(2));
  Drain(*pipeline);
  const FakeSource source(data);
  for (const OpProfile& op : pipeline->Profile().ops) {
    if (op.slowest.row_ns == 0) continue;
    const readers::RecordRef ref = source.Locate(op.slowest.first.record);
    EXPECT_EQ(op.slowest.file, source.files()[ref.shard]) << op.stage;
    EXPECT_EQ(op.slowest.record, static_cast<int64_t>(ref.ordinal)) << op.stage;
  }
}

TEST(ExecutorProfileTest, ReadsThatDoNotComeAreReading) {
  Gate gate;
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(40), GatedContext(2, gate));
  ExpectCause(*pipeline, WaitCause::kReading, gate);
}

TEST(ExecutorProfileTest, WorkersThatAreAllBusyAreWork) {
  Gate gate;
  const auto pipeline = OpenFake(PlanWith(CheckOp([&](uint64_t) {
                                   gate.Pass();
                                   return true;
                                 })),
                                 MakeFakeData(40), FakeContext(1));
  ExpectCause(*pipeline, WaitCause::kWork, gate);
}

TEST(ExecutorProfileTest, TheLastRowsOfAFullRingAreRing) {
  Gate gate;
  OpenOptions options;
  options.prefetch_batches = 1;
  const auto pipeline = OpenFake(PlanWith(CheckOp([&](uint64_t record) {
                                   if (record == 3) gate.Pass();
                                   return true;
                                 })),
                                 MakeFakeData(40), FakeContext(4), options);
  ExpectCause(*pipeline, WaitCause::kRing, gate);
}

TEST(ExecutorProfileTest, ReadsThatHaveNoRoomAreBudget) {
  Gate gate;
  // Room for batches of 28 rows, not for the reads of their records of 200 KiB each at once.
  const auto pipeline =
      OpenFake(MakePlan(28), MakeFakeData(56, 200 << 10), GatedContext(2, gate, int64_t{1} << 20));
  ExpectCause(*pipeline, WaitCause::kBudget, gate);
}

TEST(ExecutorProfileTest, WorkersThatOthersHaveAreWorkers) {
  Gate gate;
  const auto context = FakeContext(1);
  std::latch has_worker{1};
  context->workers().Enqueue([&] {
    has_worker.count_down();
    gate.Pass();
  });
  has_worker.wait();
  const auto pipeline = OpenFake(MakePlan(8), MakeFakeData(40), context);
  ExpectCause(*pipeline, WaitCause::kWorkers, gate);
}

TEST(ExecutorProfileTest, RecordsThatWereNotPushedAreSource) {
  auto push = PushSource::Make();
  const FakeData data = MakeFakeData(40);
  const auto pipeline = OpenPushed(MakePlan(8), push, FakeContext(2));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::thread consumer([&] { Drain(**pipeline); });
  while (Ns((*pipeline)->Profile(), WaitCause::kSource) == 0) std::this_thread::yield();
  const Feeder feeder(push, data);
  consumer.join();
  EXPECT_EQ((*pipeline)->Profile().rows, 40);
}

}  // namespace
}  // namespace millrace::pipeline
