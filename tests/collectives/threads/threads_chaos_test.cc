// Thread ranks that go wrong in the middle of a job.
#include "gtest/gtest.h"
#include "tests/collectives/chaos.h"

namespace millrace::collectives {
namespace {

TEST(ThreadsChaos, AScheduleOfFaultsEndsEveryOtherRankWithTheReason) {
  for (const unsigned seed : {1u, 2u}) {
    for (const Turn& turn : DrawTurns({2, 3, 5}, seed)) {
      ExpectOutcomes(turn, ChaosJob(turn, /*notices=*/true).Run(RunOwnThreadRanks),
                     /*notices=*/true);
    }
  }
}

TEST(ThreadsChaos, RanksMayLeaveInAnyOrder) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    for (const int size : {1, 2, 3, 5}) LeaveInAnyOrder(RunOwnThreadRanks, size, seed);
  }
}

}  // namespace
}  // namespace millrace::collectives
