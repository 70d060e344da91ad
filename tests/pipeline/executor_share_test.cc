#include <gmock/gmock.h>
#include <time.h>  // NOLINT: clock_gettime is POSIX

#include <atomic>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/op_table.h"
#include "pipeline/pipeline.h"

// Pipelines of one Context get equally much of its workers, whatever their items cost. What is
// compared is processor time, so that other processes do not matter.

namespace millrace::pipeline {
namespace {

constexpr int64_t kMicrosecond = 1000;
constexpr int64_t kMillisecond = 1000 * kMicrosecond;

int64_t ProcessorTime() {
  timespec now = {};
  EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// What a pipeline does. Items are not so short that what the executor adds to them matters, which
// sanitizers make ten times slower.
struct Work {
  int64_t row_ns = 0;
  int rows = 1;  // of a batch and of an item
};

// An endless pipeline whose op burns processor time, and a thread that takes its batches as fast as
// it can.
class BurningPipeline {
 public:
  BurningPipeline(const Work& work, std::shared_ptr<Context> context) {
    SampleOpSpec spec;
    spec.reads = {"value"};
    spec.writes = {{"burnt", DType::kI64, {}}};
    spec.preferred_rows = work.rows;
    auto ops = std::make_shared<OpTable>();
    EXPECT_TRUE(ops->RegisterSample("burn", 1, spec,
                                    [this, work](const Sample&, SampleOutput& out) {
                                      Burn(work.row_ns);
                                      return out.Allocate(0).status();
                                    })
                    .ok());
    const auto plan =
        Plan::FromText(absl::StrCat("stage { range { count: 1000 } } stage { repeat {} }\n"
                                    "stage { custom { op: \"burn\" version: 1 } }\n"
                                    "stage { batch { size: ",
                                    work.rows, " } }\n"),
                       "burn");
    EXPECT_TRUE(plan.ok()) << plan.status();
    OpenOptions options;
    options.ops = std::move(ops);
    options.prefetch_batches = 256;  // a consumer may be kept waiting for a core
    options.adapt = false;
    auto pipeline = Pipeline::Open(*plan, std::move(context), options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = *std::move(pipeline);
    consumer_ = std::thread([this] {
      while (pipeline_->Next().ok()) {
      }
    });
  }
  ~BurningPipeline() {
    pipeline_->Cancel();
    consumer_.join();
  }
  BurningPipeline(const BurningPipeline&) = delete;
  BurningPipeline& operator=(const BurningPipeline&) = delete;

  int64_t burnt_ns() const { return burnt_ns_; }

 private:
  void Burn(int64_t duration_ns) {
    const int64_t begin = ProcessorTime();
    int64_t now = begin;
    while (now - begin < duration_ns) now = ProcessorTime();
    burnt_ns_ += now - begin;
  }

  std::atomic<int64_t> burnt_ns_ = 0;  // workers -> test
  std::unique_ptr<Pipeline> pipeline_;
  std::thread consumer_;
};

// What each of these pipelines burns while all of them together burn `total_ns`. The beginning does
// not count.
std::vector<int64_t> BurnTogether(int threads, const std::vector<Work>& works, int64_t total_ns) {
  ContextOptions options;
  options.threads = threads;
  const auto context = *MakeContext(std::move(options));
  std::deque<BurningPipeline> pipelines;
  for (const Work& work : works) pipelines.emplace_back(work, context);
  const auto burnt = [&] {
    std::vector<int64_t> all;
    for (const BurningPipeline& pipeline : pipelines) all.push_back(pipeline.burnt_ns());
    return all;
  };
  const auto await = [&](int64_t sum_ns) {
    std::vector<int64_t> now = burnt();
    while (std::accumulate(now.begin(), now.end(), int64_t{0}) < sum_ns) {
      std::this_thread::yield();
      now = burnt();
    }
    return now;
  };
  const std::vector<int64_t> begin = await(total_ns / 4);
  std::vector<int64_t> spent = await(std::accumulate(begin.begin(), begin.end(), total_ns));
  for (size_t i = 0; i < spent.size(); ++i) spent[i] -= begin[i];
  return spent;
}

void ExpectEqualShares(const std::vector<Work>& works) {
  for (const int threads : {1, 2, 4}) {
    const std::vector<int64_t> spent = BurnTogether(threads, works, 400 * kMillisecond);
    const double fair =
        std::accumulate(spent.begin(), spent.end(), 0.0) / static_cast<double>(spent.size());
    for (size_t i = 0; i < spent.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(spent[i]) / fair, 1, 0.2)
          << "pipeline " << i << " on " << threads << " workers";
    }
  }
}

constexpr Work kCheap = {.row_ns = 50 * kMicrosecond, .rows = 20};
constexpr Work kDear = {.row_ns = 3 * kMillisecond};

TEST(ExecutorShareTest, TwoPipelinesOfEqualWorkGetHalfEach) {
  ExpectEqualShares({kCheap, kCheap});
  ExpectEqualShares({kDear, kDear});
}

TEST(ExecutorShareTest, CheapItemsBesideDearOnesGetHalf) { ExpectEqualShares({kCheap, kDear}); }

TEST(ExecutorShareTest, ThreePipelinesGetAThirdEach) { ExpectEqualShares({kDear, kCheap, kDear}); }

}  // namespace
}  // namespace millrace::pipeline
