// What the reducer decides before the first step: buckets, hosts, policy.
#include "collectives/reducer/bucket_plan.h"

#include <string>

#include "collectives/reducer/host_links.h"
#include "collectives/reducer/progress_policy.h"
#include "gmock/gmock.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

using testing::ElementsAre;

TEST(BucketPlan, EachBucketHasOneTypeAndComesWhenItsLastGradientDoes) {
  ReducerOptions options;
  options.edge_bucket_bytes = 4300;
  const auto plan = MakeBucketPlan(MixedGradients(), options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->buckets.size(), 3u);
  EXPECT_THAT(plan->buckets[0].gradients, ElementsAre(2));
  EXPECT_THAT(plan->buckets[1].gradients, ElementsAre(0, 3));
  EXPECT_THAT(plan->buckets[2].gradients, ElementsAre(1, 4));  // 4,224 bytes
  EXPECT_EQ(plan->buckets[2].dtype, DType::kF32);
  for (const auto& bucket : plan->buckets) EXPECT_EQ(bucket.offset % 64 + bucket.bytes % 64, 0u);
}

TEST(BucketPlan, LittleIsLeftForTheEndOfBackward) {
  ReducerOptions options;
  options.edge_bucket_bytes = 4000;
  options.bucket_bytes = 20'000;
  const auto buckets_of = [&options](const std::vector<GradientSpec>& gradients) {
    const auto plan = MakeBucketPlan(gradients, options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::vector<std::vector<size_t>> buckets;
    size_t offset = 0;
    for (const BucketPlan::Bucket& bucket : plan->buckets) {
      size_t bytes = 0;
      for (const size_t gradient : bucket.gradients) {
        EXPECT_EQ(plan->offsets[gradient], bucket.offset + bytes);
        EXPECT_EQ(plan->bucket_of[gradient], buckets.size());
        bytes += (plan->counts[gradient] * SizeOf(bucket.dtype) + 63) / 64 * 64;
      }
      EXPECT_EQ(bucket.bytes, bytes);
      EXPECT_EQ(bucket.offset, offset);
      offset += bytes;
      buckets.push_back(bucket.gradients);
    }
    EXPECT_EQ(plan->total_bytes, offset);
    return buckets;
  };
  // 2,000 bytes each, 2,048 with their padding.
  const auto seven = [](DType last) {
    std::vector<GradientSpec> gradients;
    for (int i = 0; i < 6; ++i) gradients.push_back({std::to_string(i), {500}});
    gradients.push_back({"6", {last == DType::kF32 ? 500 : 1000}, last});
    return gradients;
  };
  EXPECT_THAT(buckets_of(seven(DType::kF32)),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3, 4, 5), ElementsAre(6)));
  EXPECT_THAT(buckets_of(seven(DType::kBF16)),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3, 4, 5), ElementsAre(6)));
  options.edge_bucket_bytes = 5000;
  EXPECT_THAT(buckets_of(seven(DType::kF32)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4), ElementsAre(5, 6)));
  EXPECT_THAT(buckets_of({{"a", {500}}, {"b", {500}}}), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(buckets_of({{"a", {500}}, {"b", {2000}}, {"c", {2500}}}),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)))
      << "a large one";
  EXPECT_THAT(buckets_of({{"a", {2500}}, {"b", {2000}}, {"c", {0}}}),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2)))
      << "nothing in an end of nothing";
  options.edge_bucket_bytes = 112;
  EXPECT_THAT(buckets_of({{"a", {40}}, {"b", {10}}, {"c", {2500}}}),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2)))
      << "too little in front of a large one";
  EXPECT_THAT(buckets_of({{"a", {12}}, {"b", {12}}}), ElementsAre(ElementsAre(0, 1)))
      << "48 bytes, 64 with their padding";
  EXPECT_THAT(buckets_of({}), ElementsAre());
}

TEST(BucketPlan, RefusesTypesAndOptionsThatItDoesNotTake) {
  const auto refused = [](const GradientSpec& spec, const ReducerOptions& options) {
    return MakeBucketPlan({spec}, options).status();
  };
  const GradientSpec good = {"g", {1}};
  EXPECT_MESSAGE(refused({"g", {1}, DType::kI32}, {}), absl::StatusCode::kInvalidArgument);
  ReducerOptions options;
  options.clip_norm = -1;
  EXPECT_MESSAGE(refused(good, options), absl::StatusCode::kInvalidArgument);
  options = {};
  options.micro_batches = 0;
  EXPECT_MESSAGE(refused(good, options), absl::StatusCode::kInvalidArgument);
  options = {};
  options.wire = DType::kF64;
  EXPECT_MESSAGE(refused(good, options), absl::StatusCode::kInvalidArgument);
  options.wire = DType::kBF16;
  options.exact = true;
  EXPECT_MESSAGE(refused(good, options), absl::StatusCode::kInvalidArgument);
}

TEST(HostGroups, AreNumberedByTheirLowestRank) {
  const HostGroups groups = GroupByIdentity({7, 9, 0, 7, 0, 9, 7});
  EXPECT_THAT(groups.host_of, ElementsAre(0, 1, 2, 0, 3, 1, 0));
  EXPECT_THAT(groups.local_of, ElementsAre(0, 0, 0, 1, 0, 1, 2));
  EXPECT_THAT(groups.sizes, ElementsAre(3, 2, 1, 1));
  EXPECT_EQ(groups.largest(), 3);
  EXPECT_EQ(groups.num_stripes(), 1);
}

TEST(ProgressPolicy, AThreadWhereEachRankHasASpareCore) {
  ReducerOptions options;
  const Capabilities by_any_thread;
  const Capabilities by_one_thread = {.any_thread = false};
  const auto chosen = [&options](int cores, int ranks,
                                 std::optional<Capabilities> between_hosts = std::nullopt) {
    return ChoosePolicy(options, cores, ranks, between_hosts).policy;
  };
  EXPECT_EQ(chosen(4, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(2, 2), ProgressPolicy::kInline);
  options.compute_threads = 0;
  EXPECT_EQ(chosen(2, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(8, 2, by_one_thread), ProgressPolicy::kInline);
  options.policy = ProgressPolicy::kThread;
  EXPECT_EQ(chosen(1, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(1, 2, by_any_thread), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(1, 2, by_one_thread), ProgressPolicy::kInline);
  ReducerTeam team;
  options.team = &team;
  EXPECT_EQ(chosen(1, 2), ProgressPolicy::kThread);
  EXPECT_EQ(chosen(1, 2, by_any_thread), ProgressPolicy::kInline);
  options.caller_communicates = true;
  EXPECT_EQ(chosen(8, 2), ProgressPolicy::kInline);
  options = {};
  options.policy = ProgressPolicy::kInline;
  EXPECT_EQ(chosen(8, 2), ProgressPolicy::kInline);
}

}  // namespace
}  // namespace millrace::collectives
