#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include "tests/pipeline/executor/heavy_plans.h"
#include "tests/pipeline/executor/own_process.h"
#include "tests/sanitized.h"

// How much memory a pipeline takes, by what the system says of a process that does nothing else.

namespace millrace::pipeline {
namespace {

// The value of a line of /proc/self/status that is in kB.
int64_t StatusBytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * kKiB;
  }
  return -1;
}

using Consumer = std::function<void(Pipeline& pipeline, const std::shared_ptr<Context>& context)>;

void TakeAll(Pipeline& pipeline, const std::shared_ptr<Context>&) {
  EXPECT_GT(CountBatches(pipeline), 0);
}

// The peak is from now on that of what comes. What making the data took is not the plan's.
void ForgetPeakRss() {
  std::ofstream("/proc/self/clear_refs") << "5";
  ASSERT_LT(StatusBytes("VmHWM") - StatusBytes("VmRSS"), kMiB);
}

constexpr char kMeasured[] = "peak RSS over the start";

// Expects that the process takes no more than is promised while it runs the plan, over what it took
// before; says so in the output, for who ran the probe.
void ProbePeakRss(PhysicalPlan plan, OpenedSources opened, int64_t budget, int64_t largest_run,
                  const Consumer& consume) {
  const auto context = FakeContext(8, budget);
  ASSERT_NO_FATAL_FAILURE(ForgetPeakRss());
  const int64_t before = StatusBytes("VmRSS");
  const auto pipeline = OpenPhysical(std::move(plan), std::move(opened), context, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  consume(**pipeline, context);
  const int64_t peak = StatusBytes("VmHWM") - before;
  const int64_t promised = PromisedBytes(budget, largest_run);
  std::cout << kMeasured << ": " << peak << " B of " << promised << " B" << std::endl;
  EXPECT_LE(peak, promised);
}

void ProbePeakRss(PhysicalPlan plan, const FakeData& data, int64_t largest_run,
                  const Consumer& consume = TakeAll) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(data));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  ProbePeakRss(std::move(plan), std::move(opened), kBudget, largest_run, consume);
}

// Each in a process of its own, by the cases below.
TEST(ExecutorRssProbe, DISABLED_Plain) {
  ProbePeakRss(HeavyPlan(16, kMiB, 24), MakeFakeData(16 * 50), 0);
}
TEST(ExecutorRssProbe, DISABLED_Cut) {
  ProbePeakRss(Filtered(HeavyPlan(16, kMiB, 24), 8, 41), MakeFakeData(16 * 50), 0);
}
TEST(ExecutorRssProbe, DISABLED_Uneven) { ProbePeakRss(UnevenPlan(4, 32), MakeFakeData(400), 0); }
TEST(ExecutorRssProbe, DISABLED_Records) {
  PhysicalPlan plan = Filtered(MakePlan(64), 8, 0);
  plan.prefetch_batches = 64;
  ProbePeakRss(std::move(plan), MakeFakeData(128, kMiB), kMiB);
}
TEST(ExecutorRssProbe, DISABLED_Scratch) {
  PhysicalPlan plan = MakePlan(1);
  plan.prefetch_batches = 16;
  plan.ops.push_back(ScratchOp(8 * kMiB));
  ProbePeakRss(std::move(plan), MakeFakeData(300), 8 * kMiB);
}
// One batch is taken, and no more before another pipeline has come to its end.
TEST(ExecutorRssProbe, DISABLED_Stalled) {
  const FakeData data = MakeFakeData(8 * 60);
  ProbePeakRss(HeavyPlan(8, kMiB, 48), data, 0,
               [&](Pipeline& pipeline, const std::shared_ptr<Context>& context) {
                 ASSERT_TRUE(pipeline.Next().ok());
                 TakeAll(*OpenFake(HeavyPlan(8, kMiB, 48), data, context), context);
                 TakeAll(pipeline, context);
               });
}
TEST(ExecutorRssProbe, DISABLED_Held) {
  ProbePeakRss(HeavyPlan(8, kMiB, 48), MakeFakeData(8 * 60), 0,
               [](Pipeline& pipeline, const std::shared_ptr<Context>& context) {
                 EXPECT_EQ(CountBatchesHeld(pipeline, *context), 60);
               });
}
// Among small ones.
TEST(ExecutorRssProbe, DISABLED_LargeRecord) {
  constexpr int64_t kRecord = 200 * kMiB;
  FakeData data = MakeFakeData(60, 10 << 10);
  data.payloads[33].resize(kRecord, 'x');
  ProbePeakRss(MakePlan(4), data, kRecord);
}
// One is looked at while the other goes into its batch.
TEST(ExecutorRssProbe, DISABLED_LargeRecordsOfACut) {
  constexpr int64_t kRecord = 200 * kMiB;
  FakeData data = MakeFakeData(60, 10 << 10);
  for (const size_t large : {33, 50}) data.payloads[large].resize(kRecord, 'x');
  ProbePeakRss(Filtered(MakePlan(4), 4, 10 << 10), data, kRecord);
}

// Lets the pipeline take all the room that there is for batches, and then all of these.
void TakeAllOnceItIsFull(Pipeline& pipeline, const std::shared_ptr<Context>& context) {
  while (context->memory_budget()->Fits(16 * kMiB)) std::this_thread::yield();
  TakeAll(pipeline, context);
}
// 112 MiB of slots.
TEST(ExecutorRssProbe, DISABLED_ShuffleOfTheOrder) {
  PhysicalPlan plan = OfNumbers(HeavyPlan(8, kMiB, 24), uint64_t{60} << 20);
  plan.order.steps = {Step(OrderStep::Kind::kShuffle, uint64_t{28} << 20),
                      Step(OrderStep::Kind::kTake, 8 * 60)};
  OpenedSources opened = OpenRange(plan);
  ProbePeakRss(std::move(plan), std::move(opened), 128 * kMiB, 0, TakeAllOnceItIsFull);
}
// Half a million rows, which every token names.
TEST(ExecutorRssProbe, DISABLED_RowsOpenBehindACut) {
  constexpr uint64_t kBatch = 1 << 16;
  PhysicalPlan plan = OfNumbers(HeavyPlan(kBatch, 1, 64), 40 * kBatch);
  plan = ShuffledBehindAFilter(std::move(plan), 8 * kBatch);
  OpenedSources opened = OpenRange(plan);
  ProbePeakRss(std::move(plan), std::move(opened), 64 * kMiB, 0,
               [](Pipeline& pipeline, const std::shared_ptr<Context>& context) {
                 for (int i = 0; i < 8; ++i) ASSERT_TRUE(pipeline.Next().ok());
                 TakeAllOnceItIsFull(pipeline, context);
               });
}

class ExecutorRssTest : public testing::TestWithParam<std::string> {};

TEST_P(ExecutorRssTest, PeakRssKeepsThePromise) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory counts as ours";
  std::string output;
  // malloc gives large blocks back at once, so that what it keeps for later does not count.
  EXPECT_TRUE(RunInOwnProcess(absl::StrCat("ExecutorRssProbe.DISABLED_", GetParam()),
                              "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1048576", output))
      << output;
  EXPECT_THAT(output, testing::HasSubstr(kMeasured));
}

INSTANTIATE_TEST_SUITE_P(Plans, ExecutorRssTest,
                         testing::Values("Plain", "Cut", "Uneven", "Records", "Scratch", "Stalled",
                                         "Held", "LargeRecord", "LargeRecordsOfACut",
                                         "ShuffleOfTheOrder", "RowsOpenBehindACut"),
                         [](const auto& plan) { return plan.param; });

}  // namespace
}  // namespace millrace::pipeline
