// Thread ranks connected by TCP that go wrong in the middle of a job. tests/cli/chaos_cli_test.py
// kills and stops processes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/collectives/chaos.h"
#include "tests/collectives/tcp/tcp_ranks.h"

namespace millrace::collectives {
namespace {

void RunOwnTcpRanks(int size, const RankWithOwn& body) {
  const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
  RunOwnThreadRanks(size, [&](std::unique_ptr<Communicator> own) {
    auto comm = ConnectTcpRank(address, own->rank(), size);
    ASSERT_TRUE(comm.ok()) << comm.status();
    body(*std::move(comm));
  });
}

TEST(TcpChaos, AScheduleOfFaultsEndsEveryOtherRankWithTheReason) {
  for (const unsigned seed : {1u, 2u}) {
    for (const Turn& turn : DrawTurns({2, 3, 5}, seed)) {
      ExpectOutcomes(turn, ChaosJob(turn, /*notices=*/true).Run(RunOwnTcpRanks), /*notices=*/true);
    }
  }
}

TEST(TcpChaos, RanksMayLeaveInAnyOrder) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const int size : {1, 2, 3, 5}) LeaveInAnyOrder(RunOwnTcpRanks, size, seed);
  }
}

}  // namespace
}  // namespace millrace::collectives
