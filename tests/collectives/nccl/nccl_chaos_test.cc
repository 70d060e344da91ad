// Ranks over NCCL that go wrong in the middle of a job, by a fake libnccl that delays, fails and
// hangs as the real one does.
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/collectives/chaos.h"
#include "tests/collectives/nccl/nccl_fixture.h"

namespace millrace::collectives {
namespace {

// Each rank also has memory that its communicator allocated and registered.
void RunOwnNcclRanks(int size, const RankWithOwn& body) {
  RunOwnThreadRanks(size, [&body](std::unique_ptr<Communicator> own) {
    const std::unique_ptr<Communicator> bootstrap = std::move(own);
    std::vector<float> registered(10);
    auto comm = nccl::MakeNcclOn(*bootstrap, {.library = FAKE_NCCL}, MakeHostQueue);
    ASSERT_TRUE(comm.ok()) << comm.status();
    ASSERT_TRUE((*comm)->Allocate(64).ok());
    ASSERT_TRUE((*comm)->Register(registered.data(), 40).ok());
    body(*std::move(comm));
  });
}

class NcclChaosTest : public testing::Test {
 protected:
  void Reset() {
    control_.polls = 2;
    control_.fails_on = -1;
    control_.failure = nccl::Result::kRemoteError;
    control_.peers_notice = true;
    control_.aborted = control_.destroyed = control_.misuses = 0;
  }
  void ExpectNothingLeft(const Turn& turn) {
    SCOPED_TRACE(turn.ToString());
    EXPECT_EQ(control_.live, 0) << "communicators that nobody ended";
    EXPECT_EQ(control_.aborted + control_.destroyed, turn.size);
    EXPECT_EQ(control_.misuses, 0);
    EXPECT_EQ(control_.allocations, 0);
    EXPECT_EQ(control_.registrations, 0);
  }
  void RunTurn(const Turn& turn) {
    Reset();
    ChaosJob job(turn, /*notices=*/false);
    ExpectOutcomes(turn, job.Run(RunOwnNcclRanks), /*notices=*/false);
    ExpectNothingLeft(turn);
    const bool harmless = turn.fault == Fault::kSlow || turn.fault == Fault::kDiverges;
    const int aborted = control_.aborted;
    EXPECT_EQ(aborted == 0, harmless) << turn.ToString();
    // Who leaves does so in peace, or meets the others' aborts.
    const int others = turn.size - (turn.fault == Fault::kLeaves ? 1 : 0);
    EXPECT_GE(aborted, harmless ? 0 : others) << turn.ToString();
  }

  FakeNcclControl& control_ = ControlOf(FAKE_NCCL);
};

TEST_F(NcclChaosTest, AScheduleOfFaultsAbortsTheCommunicatorOfEveryOtherRank) {
  for (const unsigned seed : {1u, 2u}) {
    for (const Turn& turn : DrawTurns({2, 3}, seed)) RunTurn(turn);
  }
}

// As over NVLink, where nothing tells of a peer's end.
TEST_F(NcclChaosTest, RanksThatHearNothingOfEachOtherEndByTheirWatch) {
  for (const bool agreed : {false, true}) {
    const Turn turn{Fault::kLost, 3, 1, 1, agreed};
    Reset();
    control_.peers_notice = false;
    ExpectOutcomes(turn, ChaosJob(turn, /*notices=*/false).Run(RunOwnNcclRanks), /*notices=*/false);
    ExpectNothingLeft(turn);
    EXPECT_EQ(control_.aborted, 3);
  }
}

TEST_F(NcclChaosTest, ARankWhoseOperationFailsEndsAllOthers) {
  for (int rank = 0; rank < 3; ++rank) {
    Turn turn{Fault::kSlow, 3, rank, 2, true};
    Reset();
    ChaosJob job(turn, /*notices=*/false);
    job.before_fault = [this, rank] { control_.fails_on = rank; };
    for (const ChaosJob::Seen& seen : job.Run(RunOwnNcclRanks)) {
      EXPECT_TRUE(absl::IsUnavailable(seen.outcome)) << seen.outcome;
      EXPECT_TRUE(absl::IsUnavailable(seen.later)) << seen.later;
    }
    ExpectNothingLeft(turn);
    EXPECT_EQ(control_.aborted, 3);
  }
}

// The device has the operations and does not come to an end with them.
TEST_F(NcclChaosTest, ADeviceThatIsSlowIsWaitedFor) {
  const Turn turn{Fault::kSlow, 3, 0, 1, true};
  Reset();
  control_.polls = 20;
  ChaosJob job(turn, /*notices=*/false);
  std::jthread device;
  job.before_fault = [&] {
    control_.Hold();
    device = std::jthread([this] {
      control_.AwaitHeld();
      control_.Release();
    });
  };
  ExpectOutcomes(turn, job.Run(RunOwnNcclRanks), /*notices=*/false);
  ExpectNothingLeft(turn);
}

TEST_F(NcclChaosTest, RanksMayLeaveInAnyOrder) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const int size : {1, 2, 3}) {
      Reset();
      LeaveInAnyOrder(RunOwnNcclRanks, size, seed);
      EXPECT_EQ(control_.live, 0);
      EXPECT_EQ(control_.misuses, 0);
      EXPECT_EQ(control_.allocations, 0);
    }
  }
}

}  // namespace
}  // namespace millrace::collectives
