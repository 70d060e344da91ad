#include "tests/collectives/forked_ranks.h"

#include <csignal>

#include "gmock/gmock.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::seconds kGuard(60);

TEST(ForkedRanks, MeetBroadcastAndSplit) {
  const auto outcomes = RunForked(3, kGuard, [](Communicator& comm) {
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    Buffer in(DType::kI32, 5, comm.rank());
    Buffer out(DType::kI32, 15);
    MILLRACE_RETURN_IF_ERROR(comm.AllGather(in.view(), out.view()));
    for (size_t i = 0; i < 15; ++i) {
      if (out.Get(i) != Value(static_cast<int>(i / 5), i % 5)) return Fail("gathered");
    }
    MILLRACE_RETURN_IF_ERROR(comm.Broadcast(in.view(), 2));
    if (in.Get(3) != Value(2, 3)) return Fail("broadcast");
    MILLRACE_ASSIGN_OR_RETURN(const auto half, comm.Split(comm.rank() % 2, -comm.rank()));
    if (half->size() != (comm.rank() == 1 ? 1 : 2)) return Fail("size of the half");
    if (comm.rank() == 0 && half->rank() != 1) return Fail("order of the half");
    return half->Barrier();
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

TEST(ForkedRanks, ADeadRankIsToldFromOneThatFails) {
  const auto outcomes = RunForked(3, kGuard, [](Communicator& comm) {
    if (comm.rank() == 1) ::raise(SIGKILL);
    return comm.Barrier();
  });
  EXPECT_TRUE(absl::IsUnavailable(outcomes[0])) << outcomes[0];
  EXPECT_EQ(outcomes[1], absl::AbortedError("the rank has died"));
  EXPECT_TRUE(absl::IsUnavailable(outcomes[2])) << outcomes[2];
}

}  // namespace
}  // namespace millrace::collectives
