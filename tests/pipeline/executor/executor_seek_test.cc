#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "tests/pipeline/executor/executor_fixture.h"

// What moving costs: rows that are worked on, whatever the batch. The rules cited are those of
// docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kBatch = 16;
constexpr int kRing = 4;

// Moves to `batch` and takes it; returns how many rows were worked on from the move to the end.
int64_t RowsOfSeek(const std::string& stages, uint64_t batch) {
  const auto plan = Plan::FromText(
      absl::StrCat("seed: 5 ", stages, "stage { batch { size: ", kBatch, " } }"), "plan");
  EXPECT_TRUE(plan.ok()) << plan.status();
  ContextOptions context_options;
  context_options.threads = 2;
  const auto context = *MakeContext(std::move(context_options));
  OpenOptions options;
  options.prefetch_batches = kRing;
  options.adapt = false;
  auto pipeline = *Pipeline::Open(*plan, context, options);
  const Counter& rows = context->metrics().counter(metric::kRecordsRead);
  constexpr int64_t kAhead = kRing * kBatch;
  while (rows.value() < kAhead) std::this_thread::yield();  // the ring is full
  EXPECT_TRUE(pipeline->Seek(batch).ok());
  const auto next = pipeline->Next();
  EXPECT_TRUE(next.ok() && next->has_value()) << next.status();
  EXPECT_EQ((*next)->index(), batch);
  EXPECT_EQ((*next)->num_valid_rows(), static_cast<int64_t>(kBatch));
  pipeline.reset();
  return rows.value() - kAhead;
}

constexpr char kTrillion[] = "stage { range { count: 1000000000000 } }\n";

// S-STATE-22.
TEST(ExecutorSeekTest, SeekWorksOnNoRowBeforeItsBatch) {
  constexpr uint64_t kBillion = 1'000'000'000;
  for (const std::string order :
       {"stage { global_shuffle {} }", "stage { shuffle { buffer_size: 5000 } }",
        "stage { global_shuffle {} } stage { shard { num_shards: 7 index: 3 } } stage { repeat {} "
        "}",
        "stage { skip { count: 11 } }"}) {
    SCOPED_TRACE(order);
    EXPECT_LE(RowsOfSeek(kTrillion + order, kBillion), (kRing + 1) * static_cast<int64_t>(kBatch));
  }
}

// S-STATE-22, S-SELECT-3.
TEST(ExecutorSeekTest, SeekBehindAMaterializedFilterWorksOnNoRowBeforeItsBatch) {
  const std::string stages =
      "stage { range { count: 300000 } } stage { global_shuffle {} }\n"
      "stage { filter { predicate: \"value >= 100000\" materialize: true } }\n";
  EXPECT_LE(RowsOfSeek(stages, 12'000), (kRing + 1) * static_cast<int64_t>(kBatch));
}

}  // namespace
}  // namespace millrace::pipeline
