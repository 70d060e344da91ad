#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "pipeline/op_table.h"
#include "readers/read_engine.h"
#include "readers/record_writer.h"
#include "tests/pipeline/cut/cut_plans.h"
#include "tests/pipeline/source/push_fixture.h"
#include "tests/sanitized.h"
#include "tests/temp_folder.h"

// From opening to the end, and every early way out: cancelled, dropped, blocked in an op or a read,
// an op that throws, a forked process.

namespace millrace::pipeline {
namespace {

namespace fs = std::filesystem;
using Code = absl::StatusCode;

constexpr int kThreads = 4;

// What work does last that a destructor has to wait for. One that does not wait would return while
// this goes on.
void LeaveLate(std::atomic<bool>& left) {
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  left = true;
}

// An I/O engine whose reads wait until a latch opens, and then leave late. All of them: which one
// comes first is the threads' affair, and the first batch must not be read.
class LatchedIo final : public IoEngine {
 public:
  LatchedIo(std::latch* entered, std::latch* release) : entered_(entered), release_(release) {}
  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    auto late = [this, requests, done = std::move(done)]() mutable {
      if (!was_first_.test_and_set()) entered_->count_down();
      release_->wait();
      LeaveLate(passed_);
      inner_.Submit(std::move(requests), std::move(done));
    };
    MutexLock lock(mu_);
    threads_.emplace_back(std::move(late));
  }
  ~LatchedIo() override {
    for (std::thread& thread : threads_) thread.join();
  }
  bool passed() const { return passed_; }

 private:
  std::latch* const entered_;
  std::latch* const release_;
  std::atomic_flag was_first_;
  std::atomic<bool> passed_{false};  // reading thread -> test
  FakeIo inner_;
  Mutex mu_;
  std::vector<std::thread> threads_ MILLRACE_GUARDED_BY(mu_);
};

std::shared_ptr<Context> ContextWith(std::shared_ptr<IoEngine> io) {
  ContextOptions options;
  options.threads = 2;
  options.io = std::move(io);
  return *Context::Make(std::move(options));
}

// Cancels once `entered`, while the caller waits in Next.
void ExpectCancelEndsNext(Pipeline& pipeline, std::latch& entered) {
  std::thread canceller([&] {
    entered.wait();
    pipeline.Cancel();
  });
  EXPECT_EQ(pipeline.Next().status().code(), Code::kCancelled);
  canceller.join();
  EXPECT_EQ(pipeline.Next().status().code(), Code::kCancelled);
  const auto now = pipeline.TryNext();
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->status().code(), Code::kCancelled);
}

TEST(ExecutorLifeTest, CancelEndsANextThatWaitsForARead) {
  std::latch entered(1), release(1);
  auto io = std::make_shared<LatchedIo>(&entered, &release);
  auto pipeline = OpenFake(MakePlan(4), MakeFakeData(20), ContextWith(io));
  ExpectCancelEndsNext(*pipeline, entered);
  EXPECT_FALSE(io->passed());
  release.count_down();
  pipeline.reset();
}

TEST(ExecutorLifeTest, CancelEndsANextThatWaitsForPassOne) {
  std::latch entered(1), release(1);
  std::atomic_flag first;
  PhysicalPlan plan = MakePlan(4);
  plan.cut.emplace();
  AddExamineOp(plan, CheckOp([&](uint64_t) {
                 if (!first.test_and_set()) entered.count_down();
                 release.wait();
                 return true;
               }));
  AddExamineOp(plan, SizeOp());
  AddFilter(plan, "size > 0");
  auto pipeline = OpenFake(std::move(plan), MakeFakeData(20), FakeContext(2));
  ExpectCancelEndsNext(*pipeline, entered);
  release.count_down();
}

// The op pushes records until the source is closed, which is what cancelling does: it leaves only
// behind the destructor's Cancel, and must still have left when the destructor returns.
TEST(ExecutorLifeTest, TheDestructorWaitsForAnOpThatBlocks) {
  for (const bool cancel_first : {false, true}) {
    std::latch entered(1);
    std::atomic<bool> left{false};
    PushSourceOptions push_options;
    push_options.max_bytes = 1;  // only what the first batch lacks
    const auto push = PushSource::Make(push_options);
    PhysicalPlan plan = MakePlan(4);
    plan.ops.push_back(CheckOp([&](uint64_t record) {
      if (record != 0) return true;
      entered.count_down();
      while (push->Push("more").ok()) {
      }
      LeaveLate(left);
      return true;
    }));
    auto pipeline = *OpenPushed(std::move(plan), push, FakeContext(2));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(push->Push("record").ok());
    entered.wait();
    EXPECT_FALSE(left);
    if (cancel_first) pipeline->Cancel();
    pipeline.reset();
    EXPECT_TRUE(left);
  }
}

TEST(ExecutorLifeTest, TheDestructorWaitsForAReadThatBlocks) {
  std::latch entered(1), release(1);
  auto io = std::make_shared<LatchedIo>(&entered, &release);
  auto pipeline = OpenFake(MakePlan(4), MakeFakeData(20), ContextWith(io));
  entered.wait();
  release.count_down();
  pipeline.reset();
  EXPECT_TRUE(io->passed());
}

TEST(ExecutorLifeTest, AForkedChildIsRefusedByEveryCall) {
  const auto context = FakeContext(2);
  auto pipeline = OpenFake(FilterPlan(), MakeFakeData(60), context);
  ASSERT_TRUE(pipeline->Next().ok());
  const std::string token = pipeline->Save();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto refused = [](const absl::Status& status) {
      return status.code() == Code::kFailedPrecondition;
    };
    bool right = refused(pipeline->Next().status());
    const auto now = pipeline->TryNext();
    right = right && now.has_value() && refused(now->status());
    const auto in_time = pipeline->NextFor(std::chrono::hours(1));
    right = right && in_time.has_value() && refused(in_time->status());
    right = right && refused(pipeline->Restore(token));
    right = right && refused(TryOpenFake(MakePlan(4), FakeData(), context).status());
    pipeline.reset();  // must not wait for threads that are not there
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(pipeline->Next().ok());
}

size_t CountIn(const char* folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

struct Holdings {
  size_t threads = CountIn("/proc/self/task");
  size_t descriptors = CountIn("/proc/self/fd");
};

class ExecutorLeftoversTest : public testing::Test {
 protected:
  ExecutorLeftoversTest() {
    for (int shard = 0; shard < 3; ++shard) {
      auto writer = readers::TfRecordWriter::Open(folder_ / absl::StrCat("data-", shard));
      EXPECT_TRUE(writer.ok()) << writer.status();
      for (int i = 0; i < 40; ++i) {
        EXPECT_TRUE((*writer)->Write(absl::StrCat("record ", shard, " ", i)).ok());
      }
      EXPECT_TRUE((*writer)->Close().ok());
    }
    SampleOpSpec spec;
    spec.reads = {"record"};
    spec.writes = {{"value", DType::kI64, {}}};
    spec.removes = {"record"};
    auto ops = std::make_shared<OpTable>();
    EXPECT_TRUE(ops->RegisterSample("value", 1, spec,
                                    [this](const Sample& sample, SampleOutput& output) {
                                      if (sample.id().record == throws_at_)
                                        throw std::runtime_error("deliberate");
                                      *static_cast<int64_t*>(output.Allocate(0)->data) = 1;
                                      return absl::OkStatus();
                                    })
                    .ok());
    options_.ops = ops;
    options_.index_folder = folder_ / "index";
  }

  std::unique_ptr<Pipeline> Open(std::shared_ptr<Context> context, bool shuffled) const {
    const auto plan = Plan::FromText(
        absl::StrCat("seed: 3 stage { tfrecord { files: \"", folder_ / "data-*", "\" } } ",
                     shuffled ? "stage { global_shuffle {} } " : "",
                     "stage { repeat {} } stage { custom { op: \"value\" version: 1 } } "
                     "stage { batch { size: 8 } } stage { prefetch { batches: 3 } }"),
        "plan");
    EXPECT_TRUE(plan.ok()) << plan.status();
    auto pipeline = Pipeline::Open(*plan, std::move(context), options_);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }

  // A plan with a cut.
  std::unique_ptr<Pipeline> OpenCut(const std::shared_ptr<Context>& context,
                                    std::mt19937& random) const {
    const std::vector<NamedPlan> plans = CutPlans();
    PhysicalPlan plan = plans[random() % plans.size()].make();
    if (random() % 2 == 0) {
      plan.ops.push_back(ThrowingOp());
    } else {
      AddExamineOp(plan, ThrowingOp());
    }
    return OpenFake(std::move(plan), MakeFakeData(120), context);
  }

  // Records that `feeder` pushes; it may leave without a word.
  std::unique_ptr<Pipeline> OpenFed(const std::shared_ptr<Context>& context, std::mt19937& random,
                                    std::thread& feeder) const {
    auto push = PushSource::Make();
    PhysicalPlan plan = random() % 2 == 0 ? MakePlan(8) : FilterPlan(8, 4);
    plan.ops.push_back(ThrowingOp());
    auto pipeline = OpenPushed(std::move(plan), push, context);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    feeder = std::thread([push = std::move(push), records = random() % 60, ends = random() % 2] {
      for (uint64_t i = 0; i < records; ++i) {
        if (!push->Push(std::string(40 + i % 5, 'x')).ok()) return;
      }
      if (ends != 0) push->Finish();
    });
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }

  // Opens a pipeline of any kind and leaves it in one of many ways.
  void OpenAndLeave(const std::shared_ptr<Context>& context, std::mt19937& random) const {
    std::thread feeder;
    const uint64_t kind = random() % 4;
    auto pipeline = kind == 0   ? OpenCut(context, random)
                    : kind == 1 ? OpenFed(context, random, feeder)
                                : Open(context, random() % 2 == 0);
    ASSERT_NE(pipeline, nullptr);
    std::thread canceller;
    if (random() % 3 == 0) canceller = std::thread([&] { pipeline->Cancel(); });
    std::vector<Batch> kept;
    for (uint64_t i = 0, takes = random() % 5; i < takes; ++i) {
      auto batch = pipeline->Next();
      if (!batch.ok()) {
        const Code code = batch.status().code();
        EXPECT_TRUE(code == Code::kCancelled || code == Code::kInternal ||
                    (code == Code::kAborted && feeder.joinable()))
            << batch.status();
        break;
      }
      if (batch->has_value() && random() % 2 == 0) kept.push_back(**std::move(batch));
    }
    if (canceller.joinable()) canceller.join();
    if (random() % 2 == 0) kept.clear();
    pipeline.reset();
    if (feeder.joinable()) feeder.join();
  }

  static std::shared_ptr<Context> NewContext() {
    ContextOptions options;
    options.threads = kThreads;
    options.io = *readers::MakePreadEngine(1);  // its thread is there from the beginning
    return *MakeContext(std::move(options));
  }

  std::atomic<uint64_t> throws_at_{~uint64_t{0}};  // test -> workers

 private:
  PhysicalOp ThrowingOp() const {
    return CheckOp([this](uint64_t record) {
      if (record == throws_at_) throw std::runtime_error("deliberate");
      return true;
    });
  }

  const TempFolder folder_;
  OpenOptions options_;
};

// Has all workers of a context at once inside a task, so that their threads are there.
void MeetAllWorkers(Context& context) {
  const auto here = std::make_shared<std::latch>(kThreads + 1);
  for (int i = 0; i < kThreads; ++i) {
    context.workers().Enqueue([here] { here->arrive_and_wait(); });
  }
  here->arrive_and_wait();
}

TEST_F(ExecutorLeftoversTest, AThousandPipelinesLeaveNoThreadDescriptorOrByte) {
  std::mt19937 random(11);
  auto context = NewContext();
  MeetAllWorkers(*context);
  ASSERT_NE(Open(context, false), nullptr);  // what is made once: the index, the runtime's own
  const Holdings before;
  for (int i = 0; i < RacingRounds(1000); ++i) {
    throws_at_ = random() % 4 == 0 ? random() % 120 : ~uint64_t{0};
    OpenAndLeave(context, random);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(context->memory_budget()->reserved_bytes(), 0);
  EXPECT_EQ(context->memory_budget()->held_bytes(), 0);
  const Holdings after;
  EXPECT_LE(after.threads, before.threads);
  EXPECT_EQ(after.descriptors, before.descriptors);
}

TEST_F(ExecutorLeftoversTest, ContextsLeaveNoDescriptor) {
  std::mt19937 random(12);
  ASSERT_NE(Open(NewContext(), false), nullptr);
  const Holdings before;
  for (int i = 0; i < 50; ++i) OpenAndLeave(NewContext(), random);
  EXPECT_EQ(Holdings().descriptors, before.descriptors);
}

TEST_F(ExecutorLeftoversTest, SeveralPipelinesEndWhileOthersGoOn) {
  const auto context = NewContext();
  const auto steady = Open(context, /*shuffled=*/true);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int k = 0; k < 60; ++k) OpenAndLeave(context, random);
    });
  }
  for (uint64_t i = 0; i < 300; ++i) {
    const auto batch = steady->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ((*batch)->index(), i);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::pipeline
