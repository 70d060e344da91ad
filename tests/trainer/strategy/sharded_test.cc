// How a strategy tells and counts its own work: ranks as threads, momentum in shards.

#include <gmock/gmock.h>

#include <set>

#include "base/status.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/loop/session.h"

namespace millrace::trainer {
namespace {

using collectives::Phase;

// The buckets in which the optimizer was said to be.
class UsedBuckets final : public collectives::Progress {
 public:
  void Enter(int64_t step, int bucket, Phase phase) override {
    if (phase == Phase::kUpdating && bucket >= 0) used.insert({step, bucket});
  }
  absl::Status Health() const override { return absl::OkStatus(); }

  std::set<std::pair<int64_t, int>> used;
};

class ShardedTest : public TrainTest {
 protected:
  using Body = std::function<absl::Status(Session&, const UsedBuckets&)>;
  absl::Status OnTwoRanks(const Body& body) {
    WriteJob("checkpoints", "",
             "epochs: 2 reduction { shard_optimizer: true bucket_bytes: 64 "
             "edge_bucket_bytes: 64 progress_policy: \"inline\" }");
    return collectives::RunRanks(2, [&](collectives::Communicator& communicator) -> absl::Status {
      TrainOptions options;
      options.job_path = folder_ / "job.pbtxt";
      options.variables = {{"DATA", folder_}};
      options.threads = 1;
      UsedBuckets progress;
      MILLRACE_ASSIGN_OR_RETURN(const auto session,
                                OpenSession(options, communicator, progress, TrainParts()));
      return body(*session, progress);
    });
  }
};

absl::Status Step(Session& session) {
  Strategy& strategy = *session.main().strategy;
  strategy.SetRows(1);
  for (size_t i = session.main().weights.size(); i-- > 0;) {
    MILLRACE_RETURN_IF_ERROR(strategy.MarkReady(i));
  }
  MILLRACE_RETURN_IF_ERROR(strategy.Finish());
  EXPECT_EQ(strategy.num_ready(), 1u);
  return strategy.Apply(0, {5, 6, 0.1}, session.main().weights).status();
}

TEST_F(ShardedTest, WhatASaveGathersIsNoCostOfSteps) {
  const absl::Status status = OnTwoRanks([](Session& session, const UsedBuckets&) -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(session.main().strategy->GatherSlots().status());
    EXPECT_EQ(session.main().strategy->counters().gather_seconds, 0);
    MILLRACE_RETURN_IF_ERROR(Step(session));
    const double of_steps = session.main().strategy->counters().gather_seconds;
    EXPECT_GT(of_steps, 0);
    MILLRACE_RETURN_IF_ERROR(session.main().strategy->GatherSlots().status());
    EXPECT_EQ(session.main().strategy->counters().gather_seconds, of_steps);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ShardedTest, ShardsAreSaidToBeUsedBucketByBucket) {
  const absl::Status status =
      OnTwoRanks([](Session& session, const UsedBuckets& progress) -> absl::Status {
        MILLRACE_RETURN_IF_ERROR(Step(session));
        EXPECT_GT(progress.used.size(), 1u);
        for (const auto& [step, bucket] : progress.used) EXPECT_EQ(step, 5) << bucket;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::trainer
