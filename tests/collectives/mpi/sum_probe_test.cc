#include "collectives/mpi/sum_probe.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millrace::collectives {
namespace {

// Sums that take these times; it is an error to ask for one more.
TimeOneSum Turns(std::vector<double> times) {
  return [times, next = size_t{0}]() mutable -> absl::StatusOr<double> {
    if (next == times.size()) return absl::OutOfRangeError("one sum more than expected");
    return times[next++];
  };
}

struct Case {
  const char* name;
  std::vector<std::vector<double>> mpis;  // times of the turns of each way; ours took 10 ms
  std::optional<size_t> chosen;
};

const Case kCases[] = {
    {"NoWayIsNone", {}, std::nullopt},
    {"TheFastestIsTaken", {{5, 5, 5, 5}, {3, 3, 3, 3}, {4, 4, 4}}, 1},
    {"LessThanATenthFasterIsNotTaken", {{9.1, 9.1, 9.1}}, std::nullopt},
    {"ATenthFasterIsTaken", {{8.9, 8.9, 8.9, 8.9}}, 0},
    {"AFastFirstTurnDoesNotCount", {{1, 9.5, 9.5}}, std::nullopt},
    {"ASlowFirstTurnDoesNotCount", {{39, 5, 5, 5}}, 0},
    {"TheMedianCounts", {{8, 30, 6, 2}, {8, 1, 7, 20}}, 0},
    {"TheLastOfThreeMayBeTheMedian", {{8, 30, 1, 6}, {8, 1, 30, 7}}, 0},
    {"OneUsefulTurnOfTwoMayBeFollowedByAnother", {{8, 30, 8, 7}}, 0},
    {"OneUsefulTurnOfThreeIsTooFew", {{8, 30, 8, 30}}, std::nullopt},
    {"AHopelessWayIsNotTriedAgain", {{40}, {8, 8, 8, 8}}, 1},
};

class ChooseWayTable : public testing::TestWithParam<Case> {};

TEST_P(ChooseWayTable, HasTheWay) {
  std::vector<TimedWay> ways;
  for (const std::vector<double>& times : GetParam().mpis) ways.push_back({"way", Turns(times)});
  const absl::StatusOr<WayChoice> choice = ChooseWay(10, ways);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->way, GetParam().chosen);
}

INSTANTIATE_TEST_SUITE_P(ChooseWay, ChooseWayTable, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(ChooseWay, SaysWhatEachWayTook) {
  const TimedWay ways[] = {{"over 1 MiB", Turns({8, 1, 7, 20})}, {"by the ring", Turns({40})}};
  const absl::StatusOr<WayChoice> choice = ChooseWay(10, ways);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->times, "7.00 ms over 1 MiB, 40.00 ms by the ring");
}

TEST(ChooseWay, ASumThatFailsEndsIt) {
  const TimedWay ways[] = {{"over 1 MiB", Turns({8, 8})}};
  EXPECT_EQ(ChooseWay(10, ways).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(MedianMs, OursIsNeverHopeless) { EXPECT_EQ(*MedianMs(Turns({1e12, 3, 1, 2})), 2); }

}  // namespace
}  // namespace millrace::collectives
