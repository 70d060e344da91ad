#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include "tests/pipeline/heavy_plans.h"

// How much memory a pipeline takes: by its own count, and by what the system says of a process that
// does nothing else.

namespace millrace::pipeline {
namespace {

using Code = absl::StatusCode;

constexpr int64_t kBudget = 32 * kMiB;
constexpr int64_t kArena = 256 * kKiB;  // the least that a worker's arena has

// Takes all batches, one at a time, and returns how many there were.
int64_t CountBatches(Pipeline& pipeline) {
  int64_t batches = 0;
  while (true) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return batches;
    ++batches;
  }
}

// The same with every batch held until the next is refused; then the oldest is dropped.
int64_t CountBatchesHeld(Pipeline& pipeline, const Context& context) {
  std::vector<Batch> held;
  int64_t batches = 0;
  int refusals = 0;
  while (true) {
    auto batch = pipeline.Next();
    if (IsRetryable(batch.status())) {
      ++refusals;
      // Nothing else may be to blame: what is held leaves no room for one more.
      EXPECT_GT(context.memory_budget()->held_bytes(), kBudget - 9 * kMiB);
      if (held.empty()) break;
      held.erase(held.begin());
      continue;
    }
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    EXPECT_EQ((*batch)->index(), static_cast<uint64_t>(batches++));
    held.push_back(**batch);
  }
  EXPECT_GT(refusals, batches / 2);
  return batches;
}

TEST(ExecutorBudgetTest, AnUnlimitedPlanWouldTakeTenTimesTheBudget) {
  const auto context = FakeContext(4);
  const auto pipeline = OpenFake(HeavyPlan(8, kMiB, 48), MakeFakeData(8 * 60), context);
  while (MostReserved(*context) < 10 * kBudget) std::this_thread::yield();
  EXPECT_TRUE(pipeline->Next().ok());
}

TEST(ExecutorBudgetTest, ItStaysWithinTheBudgetWhenItIsConsumed) {
  const auto context = FakeContext(4, kBudget);
  const auto pipeline = OpenFake(HeavyPlan(8, kMiB, 48), MakeFakeData(8 * 60), context);
  EXPECT_EQ(CountBatches(*pipeline), 60);
  EXPECT_LE(MostReserved(*context), kBudget + 4 * kArena + 256 * kKiB);
}

TEST(ExecutorBudgetTest, ItStaysWithinTheBudgetWhileItsConsumerStalls) {
  const auto context = FakeContext(4, kBudget);
  const FakeData data = MakeFakeData(8 * 60);
  const auto stalled = OpenFake(HeavyPlan(8, kMiB, 48), data, context);
  ASSERT_TRUE(stalled->Next().ok());
  // Meanwhile others come to their end.
  EXPECT_EQ(CountBatches(*OpenFake(HeavyPlan(8, kMiB, 48), data, context)), 60);
  EXPECT_EQ(CountBatches(*OpenFake(Filtered(HeavyPlan(8, kMiB, 48), 8, 41), data, context)), 36);
  EXPECT_EQ(CountBatches(*stalled), 59);
  // The oldest batch of the second pipeline may have gone over the limit, and a run of each pass.
  EXPECT_LE(MostReserved(*context), kBudget + 9 * kMiB + 4 * kArena + 2 * 256 * kKiB);
}

// S-ERROR-4.
TEST(ExecutorBudgetTest, HeldBatchesAloneAreResourceExhaustedAndStayWithinTheBudget) {
  for (const bool cut : {false, true}) {
    const auto context = FakeContext(4, kBudget);
    PhysicalPlan plan = HeavyPlan(8, kMiB, 48);
    if (cut) plan = Filtered(std::move(plan), 8, 0);
    const auto pipeline = OpenFake(std::move(plan), MakeFakeData(8 * 20), context);
    EXPECT_EQ(CountBatchesHeld(*pipeline, *context), 20);
    EXPECT_LE(MostReserved(*context), kBudget + 4 * kArena + 2 * 256 * kKiB) << cut;
  }
}

TEST(ExecutorBudgetTest, TheSlabsOfAnotherPipelineAreNoReasonToRefuse) {
  const auto context = FakeContext(2, 4 * kMiB);
  const FakeData data = MakeFakeData(40);
  const auto other = OpenFake(HeavyPlan(4, kMiB, 8), data, context);
  // It takes all there is, but nobody holds it.
  EXPECT_EQ(CountBatches(*OpenFake(HeavyPlan(4, kMiB, 8), data, context)), 10);
  EXPECT_EQ(CountBatches(*other), 10);
}

TEST(ExecutorBudgetTest, ARecordLargerThanTheBudgetIsReadAlone) {
  constexpr int64_t kRecord = 3 * kMiB;
  FakeData data = MakeFakeData(60, 10 << 10);
  for (const size_t large : {5, 6, 33}) data.payloads[large].resize(kRecord, 'x');
  for (const bool cut : {false, true}) {
    const auto make = [&] { return cut ? Filtered(MakePlan(4), 4, 10 << 10) : MakePlan(4); };
    const Stream roomy = Drain(*OpenFake(make(), data, FakeContext(1)));
    const auto context = FakeContext(4, 64 * kKiB);
    const Stream stream = Drain(*OpenFake(make(), data, context));
    EXPECT_TRUE(stream.end.ok()) << stream.end;
    EXPECT_EQ(stream.digests, roomy.digests);
    // One run over the limit, of either pass; the large record may stand behind a run's small ones.
    EXPECT_LE(MostReserved(*context), 64 * kKiB + kRecord + 256 * kKiB + 4 * kArena + 4 * kKiB);
  }
}

TEST(ExecutorBudgetTest, BothPassesOfACutShareTheBudget) {
  const FakeData data = MakeFakeData(400, 60 << 10);  // 24 MiB
  const auto make = [] {
    PhysicalPlan plan = Filtered(HeavyPlan(16, 16 * kKiB, 64), 8, 60 << 10);
    plan.batch_order = {Step(OrderStep::Kind::kRepeat, 2)};
    return plan;
  };
  const Stream roomy = Drain(*OpenFake(make(), data, FakeContext(1)));
  for (const int64_t budget : {kMiB, 2 * kMiB}) {
    const auto context = FakeContext(4, budget);
    const Stream stream = Drain(*OpenFake(make(), data, context));
    EXPECT_EQ(stream.digests, roomy.digests);
    EXPECT_LE(MostReserved(*context), budget + 2 * 320 * kKiB + 4 * kArena);
  }
}

TEST(ExecutorBudgetTest, ArenasThatGrewForOneRecordAreGivenBack) {
  constexpr int64_t kLimit = 4 * kMiB;
  const auto context = FakeContext(4, kLimit);
  PhysicalPlan plan = MakePlan(1);
  plan.prefetch_batches = 4;
  plan.ops.push_back(MakeRowOp("scratch", "scratch", DType::kU8,
                               [](millrace::Run& run, Column* output, int64_t row) {
                                 const bool large = run.id(row).record < 8;
                                 run.Allocate(*output, row, {large ? 8 * kMiB : 1});
                               }));
  const auto pipeline = OpenFake(std::move(plan), MakeFakeData(200), context);
  EXPECT_EQ(CountBatches(*pipeline), 200);
  // Otherwise everything would be over the budget from here on, and go one by one.
  EXPECT_LT(context->memory_budget()->reserved_bytes(), kLimit);
}

TEST(ExecutorBudgetTest, ABatchThatIsTooLargeGivesBackWhatItTook) {
  const auto context = FakeContext(2);
  PhysicalPlan plan = UnevenPlan(4, 2);
  const RowOp::Body huge = [](millrace::Run&, Column* output, int64_t row) {
    static const char byte = 0;
    output->Set(row, &byte, {int64_t{1} << 50});
  };
  plan.cut->examine[0].op = MakeRowOp("wide", "wide", DType::kU8, huge);
  auto pipeline = OpenFake(std::move(plan), MakeFakeData(8), context);
  EXPECT_EQ(pipeline->Next().status().code(), Code::kInvalidArgument);
  pipeline.reset();
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
}

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
void ProbePeakRss(PhysicalPlan plan, const FakeData& data, int64_t largest_run,
                  const Consumer& consume = TakeAll) {
  const auto context = FakeContext(8, kBudget);
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(data));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  ASSERT_NO_FATAL_FAILURE(ForgetPeakRss());
  const int64_t before = StatusBytes("VmRSS");
  const auto pipeline = OpenPhysical(std::move(plan), std::move(opened), context, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  consume(**pipeline, context);
  const int64_t peak = StatusBytes("VmHWM") - before;
  const int64_t promised = PromisedBytes(kBudget, largest_run);
  std::cout << kMeasured << ": " << peak << " B of " << promised << " B" << std::endl;
  EXPECT_LE(peak, promised);
}

// Each in a process of its own, by the cases below.
TEST(ExecutorBudgetProbe, DISABLED_Plain) {
  ProbePeakRss(HeavyPlan(16, kMiB, 24), MakeFakeData(16 * 50), 0);
}
TEST(ExecutorBudgetProbe, DISABLED_Cut) {
  ProbePeakRss(Filtered(HeavyPlan(16, kMiB, 24), 8, 41), MakeFakeData(16 * 50), 0);
}
TEST(ExecutorBudgetProbe, DISABLED_Uneven) {
  ProbePeakRss(UnevenPlan(4, 32), MakeFakeData(400), 0);
}
TEST(ExecutorBudgetProbe, DISABLED_Records) {
  PhysicalPlan plan = Filtered(MakePlan(64), 8, 0);
  plan.prefetch_batches = 64;
  ProbePeakRss(std::move(plan), MakeFakeData(128, kMiB), kMiB);
}
TEST(ExecutorBudgetProbe, DISABLED_Scratch) {
  PhysicalPlan plan = MakePlan(1);
  plan.prefetch_batches = 16;
  plan.ops.push_back(ScratchOp(8 * kMiB));
  ProbePeakRss(std::move(plan), MakeFakeData(300), 8 * kMiB);
}
// One batch is taken, and no more before another pipeline has come to its end.
TEST(ExecutorBudgetProbe, DISABLED_Stalled) {
  const FakeData data = MakeFakeData(8 * 60);
  ProbePeakRss(HeavyPlan(8, kMiB, 48), data, 0,
               [&](Pipeline& pipeline, const std::shared_ptr<Context>& context) {
                 ASSERT_TRUE(pipeline.Next().ok());
                 TakeAll(*OpenFake(HeavyPlan(8, kMiB, 48), data, context), context);
                 TakeAll(pipeline, context);
               });
}
TEST(ExecutorBudgetProbe, DISABLED_Held) {
  ProbePeakRss(HeavyPlan(8, kMiB, 48), MakeFakeData(8 * 60), 0,
               [](Pipeline& pipeline, const std::shared_ptr<Context>& context) {
                 EXPECT_EQ(CountBatchesHeld(pipeline, *context), 60);
               });
}
// Among small ones.
TEST(ExecutorBudgetProbe, DISABLED_LargeRecord) {
  constexpr int64_t kRecord = 200 * kMiB;
  FakeData data = MakeFakeData(60, 10 << 10);
  data.payloads[33].resize(kRecord, 'x');
  ProbePeakRss(MakePlan(4), data, kRecord);
}
// One is looked at while the other goes into its batch.
TEST(ExecutorBudgetProbe, DISABLED_LargeRecordsOfACut) {
  constexpr int64_t kRecord = 200 * kMiB;
  FakeData data = MakeFakeData(60, 10 << 10);
  for (const size_t large : {33, 50}) data.payloads[large].resize(kRecord, 'x');
  ProbePeakRss(Filtered(MakePlan(4), 4, 10 << 10), data, kRecord);
}

bool ShadowMemoryCounts() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

class ExecutorBudgetRssTest : public testing::TestWithParam<std::string> {};

// What a command writes, and whether it ended with 0.
bool RunCommand(const std::string& command, std::string& output) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, size);
  }
  return pclose(pipe) == 0;
}

TEST_P(ExecutorBudgetRssTest, PeakRssKeepsThePromise) {
  if (ShadowMemoryCounts()) GTEST_SKIP() << "a sanitizer's own memory counts as ours";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string output;
  EXPECT_TRUE(RunCommand(absl::StrCat("'", program, "' --gtest_also_run_disabled_tests ",
                                      "--gtest_filter=ExecutorBudgetProbe.DISABLED_", GetParam()),
                         output))
      << output;
  // A filter that matches nothing ends with 0 as well.
  EXPECT_THAT(output, testing::HasSubstr(kMeasured));
}

INSTANTIATE_TEST_SUITE_P(Plans, ExecutorBudgetRssTest,
                         testing::Values("Plain", "Cut", "Uneven", "Records", "Scratch", "Stalled",
                                         "Held", "LargeRecord", "LargeRecordsOfACut"),
                         [](const auto& plan) { return plan.param; });

}  // namespace
}  // namespace millrace::pipeline
