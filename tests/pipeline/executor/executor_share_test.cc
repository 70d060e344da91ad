#include <latch>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "pipeline/executor/executor.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Pipelines of one Context get equally much of its workers, whatever their items cost.
//
// Items take virtual time, by which both the workers and the executors go, and no processor time:
// on a machine that is busy, or that stands still for a while, the shares are the same.

namespace millrace::pipeline {
namespace {

constexpr int64_t kMicrosecond = 1000;
constexpr int64_t kMillisecond = 1000 * kMicrosecond;
constexpr int64_t kDuration = 900 * kMillisecond;  // of all that is done, added up
constexpr int kRing = 1024;  // more batches than a pipeline would make of it if it were alone

// Of a worker.
thread_local int64_t worker_ns = 0;
int64_t WorkerTime() { return worker_ns; }

// The time of workers that are never idle. It passes in Spend only: when all workers are there, the
// one whose time is least comes out. So none is late because the system gave it no core.
class VirtualTime {
 public:
  VirtualTime(int workers, size_t users)
      : workers_(static_cast<size_t>(workers)), spent_ns_(users, 0) {}

  // For a worker: lets `ns` pass on behalf of one of the users. False when it is all over.
  bool Spend(size_t user, int64_t ns) {
    MutexLock lock(mu_);
    if (over_) return false;
    worker_ns += ns;
    spent_ns_[user] += ns;
    over_ = std::accumulate(spent_ns_.begin(), spent_ns_.end(), int64_t{0}) >= kDuration;
    const auto end = ends_ns_.insert(worker_ns);
    changed_.NotifyAll();
    while (!over_ && (ends_ns_.size() < workers_ || end != ends_ns_.begin())) changed_.Wait(mu_);
    ends_ns_.erase(end);
    return !over_;
  }
  // Waits until kDuration has been spent; returns what each user has of it.
  std::vector<int64_t> Spent() {
    MutexLock lock(mu_);
    while (!over_) changed_.Wait(mu_);
    return spent_ns_;
  }

 private:
  const size_t workers_;
  Mutex mu_;
  CondVar changed_;
  std::vector<int64_t> spent_ns_ MILLRACE_GUARDED_BY(mu_);
  std::multiset<int64_t> ends_ns_ MILLRACE_GUARDED_BY(mu_);  // of workers in Spend
  bool over_ MILLRACE_GUARDED_BY(mu_) = false;
};

// What a pipeline does.
struct Work {
  int64_t row_ns = 0;
  int64_t rows = 1;  // of a batch and of an item
};

// An endless pipeline whose batches nobody takes.
std::unique_ptr<Executor> MakeExecutor(const Work& work, const std::shared_ptr<Context>& context,
                                       std::function<void()> row) {
  PhysicalPlan plan;
  SourceSpec range;
  range.kind = SourceSpec::Kind::kRange;
  range.stage = "range";
  range.count = 1000;
  plan.sources = {range};
  plan.order.steps = {Step(OrderStep::Kind::kRepeat)};
  plan.batch.size = static_cast<uint64_t>(work.rows);
  plan.ops.push_back(CheckOp([row = std::move(row)](uint64_t) {
    row();
    return true;
  }));
  plan.batch_schema = Schema({{"value", DType::kI64, {}}});
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(MakeRangeSource(range.count));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  OpenOptions options;
  options.prefetch_batches = kRing;
  options.adapt = false;
  auto parts = MakeExecutorParts(std::move(plan), std::move(opened), context, options);
  EXPECT_TRUE(parts.ok()) << parts.status();
  parts->rows_per_run = work.rows;
  parts->clock = WorkerTime;
  return std::make_unique<Executor>(*std::move(parts));
}

// Keeps all workers from their work until the end of its life.
class Pause {
 public:
  explicit Pause(Context& context) {
    const int threads = context.workers().num_threads();
    auto all_here = std::make_shared<std::latch>(threads + 1);
    for (int i = 0; i < threads; ++i) {
      context.workers().Enqueue([all_here, over = over_] {
        all_here->arrive_and_wait();
        over->wait();
      });
    }
    all_here->arrive_and_wait();
  }
  ~Pause() { over_->count_down(); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  const std::shared_ptr<std::latch> over_ = std::make_shared<std::latch>(1);
};

// A task that does not end before its successor is queued.
void EnqueuePlainTask(Workers& workers, VirtualTime& time) {
  workers.Enqueue([&] {
    if (time.Spend(0, kMillisecond)) EnqueuePlainTask(workers, time);
  });
}

// What each of these pipelines spends while all of them together spend kDuration, with tasks of
// another kind, which come first. Of those there are as many as workers, so none is ever idle.
std::vector<int64_t> SpendTogether(int threads, const std::vector<Work>& works) {
  VirtualTime time(threads, works.size() + 1);
  ContextOptions options;
  options.threads = threads;
  options.io = std::make_shared<FakeIo>();
  const auto context = *Context::Make(std::move(options), WorkerTime);
  std::vector<std::unique_ptr<Executor>> executors;
  {
    const Pause pause(*context);
    for (int i = 0; i < threads; ++i) EnqueuePlainTask(context->workers(), time);
    for (const Work& work : works) {
      const size_t user = executors.size() + 1;
      executors.push_back(
          MakeExecutor(work, context, [&time, &work, user] { time.Spend(user, work.row_ns); }));
      EXPECT_TRUE(executors.back()->Start({}).ok());
    }
  }
  return time.Spent();
}

void ExpectEqualShares(const std::vector<Work>& works) {
  for (const int threads : {1, 2, 4}) {
    const std::vector<int64_t> spent = SpendTogether(threads, works);
    const double fair = static_cast<double>(kDuration) / static_cast<double>(spent.size());
    for (size_t i = 0; i < spent.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(spent[i]) / fair, 1, 0.2)
          << "user " << i << " on " << threads << " workers";
    }
  }
}

constexpr Work kCheap = {.row_ns = 50 * kMicrosecond, .rows = 20};
constexpr Work kDear = {.row_ns = 3 * kMillisecond};

TEST(ExecutorShareTest, PipelinesOfEqualWorkGetEquallyMuch) {
  ExpectEqualShares({kCheap, kCheap});
  ExpectEqualShares({kDear, kDear});
}

TEST(ExecutorShareTest, CheapItemsGetAsMuchAsDearOnes) { ExpectEqualShares({kCheap, kDear}); }

TEST(ExecutorShareTest, ThreePipelinesGetEquallyMuch) { ExpectEqualShares({kDear, kCheap, kDear}); }

}  // namespace
}  // namespace millrace::pipeline
