// A sum of gradients that fails on one rank: the others know which one.
#include <optional>
#include <vector>

#include "collectives/gradient_reducer.h"
#include "collectives/peer_lost.h"
#include "gmock/gmock.h"
#include "tests/collectives/nccl/nccl_fixture.h"

namespace millrace::collectives {
namespace {

class NcclFailedSumTest : public testing::Test {
 protected:
  ~NcclFailedSumTest() override {
    control_.on_call = control_.on_begin = nullptr;
    control_.peers_notice = true;
  }

  static constexpr int kRanks = 3;
  static constexpr int kFailing = 1;
  // The only bucket is summed once as the reducer connects, and then in the step.
  static constexpr int kSumOfTheStep = 1;

  static absl::Status Step(NcclCommunicator& comm) {
    const std::vector<GradientSpec> gradients = {{"weights", Shape{8}}};
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, gradients, ReducerOptions()));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    return reducer->Finish();
  }

  void ExpectFailingRankIsNamed() {
    std::vector<absl::Status> outcomes(kRanks);
    const absl::Status run =
        RunOverFakeNccl(kRanks, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) {
          outcomes[comm.rank()] = Step(comm);
          return absl::OkStatus();
        });
    EXPECT_TRUE(run.ok()) << run;
    for (int rank = 0; rank < kRanks; ++rank) {
      const absl::Status& outcome = outcomes[rank];
      EXPECT_TRUE(absl::IsUnavailable(outcome)) << outcome;
      EXPECT_THAT(std::string(outcome.message()), testing::HasSubstr("unhandled system error"));
      const std::optional<PeerLost> lost = PeerLostOf(outcome);
      if (rank == kFailing) {
        EXPECT_FALSE(lost.has_value()) << outcome;
      } else {
        ASSERT_TRUE(lost.has_value()) << outcome;
        EXPECT_EQ(lost->rank, kFailing) << outcome;
      }
    }
  }

  static nccl::Result Fail(int rank, int operation) {
    const bool fails = rank == kFailing && operation == kSumOfTheStep;
    return fails ? nccl::Result::kSystemError : nccl::Result::kSuccess;
  }

  FakeNcclControl& control_ = ControlOf(FAKE_NCCL);
};

TEST_F(NcclFailedSumTest, ACallThatIsRefusedIsNamedByAllOthers) {
  control_.on_call = Fail;
  for (const bool notice : {true, false}) {
    control_.peers_notice = notice;
    ExpectFailingRankIsNamed();
  }
}

TEST_F(NcclFailedSumTest, AnAsynchronousErrorIsNamedByAllOthers) {
  control_.on_begin = Fail;
  for (const bool notice : {true, false}) {
    control_.peers_notice = notice;
    ExpectFailingRankIsNamed();
  }
}

}  // namespace
}  // namespace millrace::collectives
