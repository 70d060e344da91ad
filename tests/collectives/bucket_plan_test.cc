// What the reducer decides before the first step: buckets, hosts, policy.
#include <string>

#include "collectives/bucket_plan_internal.h"
#include "collectives/host_links_internal.h"
#include "collectives/progress_policy_internal.h"
#include "gmock/gmock.h"
#include "tests/collectives/reducer_steps.h"

namespace millrace::collectives {
namespace {

using testing::ElementsAre;

TEST(BucketPlan, EachBucketHasOneTypeAndComesWhenItsLastGradientDoes) {
  ReducerOptions options;
  options.first_bucket_bytes = 1500;
  const auto plan = MakeBucketPlan(MixedGradients(), options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->buckets.size(), 4u);
  EXPECT_THAT(plan->buckets[0].gradients, ElementsAre(0));  // 1,400 bytes: the first is small
  EXPECT_THAT(plan->buckets[1].gradients, ElementsAre(2));
  EXPECT_THAT(plan->buckets[2].gradients, ElementsAre(3));
  EXPECT_THAT(plan->buckets[3].gradients, ElementsAre(1, 4));
  EXPECT_EQ(plan->buckets[3].dtype, DType::kF32);
  for (const auto& bucket : plan->buckets) EXPECT_EQ(bucket.offset % 64 + bucket.bytes % 64, 0u);
}

TEST(BucketPlan, RefusesTypesAndOptionsThatItDoesNotTake) {
  const auto refused = [](const GradientSpec& spec, const ReducerOptions& options) {
    return std::string(ToStd(MakeBucketPlan({spec}, options).status().message()));
  };
  const GradientSpec good = {"g", {1}};
  EXPECT_THAT(refused({"g", {1}, DType::kI32}, {}), testing::HasSubstr("gradient 'g' is int32"));
  ReducerOptions options;
  options.clip_norm = -1;
  EXPECT_THAT(refused(good, options), testing::HasSubstr("clip_norm"));
  options = {};
  options.micro_batches = 0;
  EXPECT_THAT(refused(good, options), testing::HasSubstr("micro_batches"));
  options = {};
  options.wire = DType::kF64;
  EXPECT_THAT(refused(good, options), testing::HasSubstr("wire"));
  options.wire = DType::kBF16;
  options.exact = true;
  EXPECT_THAT(refused(good, options), testing::HasSubstr("exact"));
}

TEST(HostGroups, AreNumberedByTheirLowestRank) {
  const HostGroups groups = GroupByIdentity({7, 9, 0, 7, 0, 9, 7});
  EXPECT_THAT(groups.host_of, ElementsAre(0, 1, 2, 0, 3, 1, 0));
  EXPECT_THAT(groups.local_of, ElementsAre(0, 0, 0, 1, 0, 1, 2));
  EXPECT_THAT(groups.sizes, ElementsAre(3, 2, 1, 1));
  EXPECT_EQ(groups.largest(), 3);
  EXPECT_EQ(groups.num_lanes(), 1);
}

TEST(ProgressPolicy, AThreadWhereEachRankHasASpareCore) {
  ReducerOptions options;
  const auto chosen = [&options](int cores, int ranks, std::string_view cross = "") {
    return ChoosePolicy(options, cores, ranks, cross).policy;
  };
  EXPECT_EQ(chosen(4, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(2, 2), ProgressPolicy::kInline);
  options.compute_threads = 0;
  EXPECT_EQ(chosen(2, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(8, 2, "mpi"), ProgressPolicy::kInline);
  options.policy = ProgressPolicy::kThread;
  EXPECT_EQ(chosen(1, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(1, 2, "gloo"), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(1, 2, "mpi"), ProgressPolicy::kInline);
  ReducerTeam team;
  options.team = &team;
  EXPECT_EQ(chosen(1, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(1, 2, "gloo"), ProgressPolicy::kInline);
  options.policy = ProgressPolicy::kInline;
  EXPECT_EQ(chosen(8, 2), ProgressPolicy::kInline);
}

}  // namespace
}  // namespace millrace::collectives
