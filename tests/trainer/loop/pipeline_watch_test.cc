#include "trainer/loop/pipeline_watch.h"

#include <optional>
#include <string>
#include <utility>

#include "base/metric_table.h"
#include "pipeline/pipeline.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

// Bytes, since rates are of a time that passes.
double ReadBytes(const pipeline::Diagnosis& diagnosis) {
  for (const pipeline::ResourceUse& use : diagnosis.resources) {
    if (use.limit == pipeline::Limit::kReading) return use.used * diagnosis.seconds;
  }
  return 0;
}

TEST_F(TrainTest, FetchedBytesAreOfTheStretchAndOfOneReplica) {
  Session session;
  auto context = pipeline::MakeContext();
  ASSERT_TRUE(context.ok()) << context.status();
  session.context = *std::move(context);
  auto plan = pipeline::Plan::FromFile(folder_ / "eval.pbtxt", {{"DATA", folder_}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto opened = pipeline::Pipeline::Open(*plan, session.context);
  ASSERT_TRUE(opened.ok()) << opened.status();
  session.train_plan = *plan;
  session.train = *std::move(opened);

  constexpr int64_t kMany = 1'000'000'000'000;  // more than anything else reads
  Counter& fetched = session.context->metrics().counter(metric::kFetchedBytes);
  PipelineWatch watch(session);
  fetched.Add(kMany);
  watch.Begin();
  fetched.Add(6 * kMany);
  watch.Pause();
  fetched.Add(5 * kMany);
  watch.Resume();
  fetched.Add(2 * kMany);
  ASSERT_TRUE(session.train->Next().ok());
  EXPECT_NEAR(ReadBytes(*watch.Finish(/*ranks=*/1, /*replicas=*/1)), 8.0 * kMany, 1e-6 * kMany);
  EXPECT_NEAR(ReadBytes(*watch.Finish(/*ranks=*/2, /*replicas=*/2)), 4.0 * kMany, 1e-6 * kMany);
}

}  // namespace
}  // namespace millrace::trainer
