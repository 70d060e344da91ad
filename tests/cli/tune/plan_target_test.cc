#include "cli/tune/plan_target.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

// Of `records` numbers, in batches of five.
PlanTarget TargetOf(int records, const std::string& more = "") {
  const auto plan =
      pipeline::Plan::FromText(absl::StrCat("stage { range { count: ", records, " } } ", more,
                                            " stage { batch { size: 5 } }"),
                               "plan");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return PlanTarget(*plan);
}

// The samples of a batch; -1: the end of the stream.
int64_t NextOf(TuneTarget& target) {
  const auto samples = target.Next();
  EXPECT_TRUE(samples.ok()) << samples.status();
  return samples.ok() ? samples->value_or(-1) : 0;
}

TEST(PlanTargetTest, OtherSettingsGoOnWhereItStoppedAndTheEndIsFollowedByTheStart) {
  PlanTarget target = TargetOf(13);
  ASSERT_TRUE(target.Open({.threads = 1}).ok());
  EXPECT_EQ(target.pipeline().Profile().workers, 1);
  for (const int64_t expected : {5, 5, 3, -1, 5, 5}) EXPECT_EQ(NextOf(target), expected);
  ASSERT_TRUE(target.Open({.threads = 2, .prefetch_batches = 3}).ok());
  EXPECT_EQ(target.pipeline().Profile().workers, 2);
  EXPECT_EQ(target.pipeline().Profile().ring, 3);
  for (const int64_t expected : {3, -1, 5, 5, 3, -1}) EXPECT_EQ(NextOf(target), expected);
}

TEST(PlanTargetTest, AStreamWithoutABatchIsNotFound) {
  PlanTarget target = TargetOf(13, "stage { filter { predicate: \"value < 0\" } }");
  ASSERT_TRUE(target.Open({}).ok());
  EXPECT_EQ(target.Next().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::cli
