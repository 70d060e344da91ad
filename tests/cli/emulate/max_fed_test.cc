#include "cli/emulate/max_fed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace millrace::cli {
namespace {

// A host that feeds `capacity` accelerators fully, and more of them in part.
MaxFed Search(double guess, double capacity) {
  return FindMaxFed(guess, [&](int count) -> absl::StatusOr<FeedTrial> {
    return FeedTrial{count, std::min(1.0, capacity / count), 0};
  });
}

TEST(MaxFedTest, FindsTheMostFromAnyGuess) {
  for (const double guess : {-1.0, 0.0, 0.4, 1.0, 3.0, 7.0, 8.0, 9.0, 100.0, 1e18}) {
    for (const int most : {0, 1, 2, 3, 7, 8, 9, 100, 1000}) {
      const auto found = Search(guess, (most + 0.5) * kFedUtilisation);
      ASSERT_TRUE(found.status.ok());
      EXPECT_EQ(found.accelerators, most) << guess;
      EXPECT_FALSE(found.or_more);
      std::set<int> tried;
      for (const FeedTrial& trial : found.trials) tried.insert(trial.accelerators);
      EXPECT_EQ(tried.size(), found.trials.size()) << "a number was tried twice";
      EXPECT_LE(tried.size(), 26u);
    }
  }
}

TEST(MaxFedTest, AGoodGuessTakesTwoTries) {
  EXPECT_EQ(Search(5, 5 * kFedUtilisation + 0.01).trials.size(), 2u);
  EXPECT_EQ(Search(6, 5 * kFedUtilisation + 0.01).trials.size(), 2u);
}

TEST(MaxFedTest, ExactlyTheLimitIsFed) {
  const auto found = FindMaxFed(1, [](int count) -> absl::StatusOr<FeedTrial> {
    return FeedTrial{count, count == 1 ? 0.90 : 0.8999, 0};
  });
  EXPECT_EQ(found.accelerators, 1);
}

TEST(MaxFedTest, NeverLeavesWhatCanBeEmulated) {
  const auto found = Search(1, 1e9);
  EXPECT_EQ(found.accelerators, kMaxAccelerators);
  EXPECT_TRUE(found.or_more);
}

TEST(MaxFedTest, AnErrorEndsTheSearchAndKeepsTheTriesBeforeIt) {
  int tries = 0;
  const auto found = FindMaxFed(4, [&](int count) -> absl::StatusOr<FeedTrial> {
    if (++tries == 3) return absl::DataLossError("record 3");
    return FeedTrial{count, 1, 0};
  });
  EXPECT_EQ(found.status, absl::DataLossError("record 3"));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(found.trials.size(), 2u);
  EXPECT_EQ(found.accelerators, 5);
}

}  // namespace
}  // namespace millrace::cli
