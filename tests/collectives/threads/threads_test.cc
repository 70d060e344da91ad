// What the threads backend promises beyond the conformance suite.
#include <atomic>
#include <random>
#include <thread>

#include "collectives/factory.h"
#include "gmock/gmock.h"
#include "tests/collectives/test_buffer.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

// Runs `body` on three ranks; returns each rank's own status.
std::vector<absl::Status> Outcomes(const RankBody& body) {
  std::vector<absl::Status> outcomes(3);
  const absl::Status run = RunRanks(3, [&](Communicator& comm) {
    outcomes[comm.rank()] = body(comm);
    return comm.Barrier();  // a mismatch leaves the group usable
  });
  EXPECT_TRUE(run.ok()) << run;
  return outcomes;
}

void ExpectAllInvalid(const RankBody& body) {
  for (const absl::Status& outcome : Outcomes(body)) {
    EXPECT_MESSAGE(outcome, absl::StatusCode::kInvalidArgument, "every-rank");
  }
}

TEST(ThreadGroup, DifferentOperationsAreInvalidOnAllRanks) {
  ExpectAllInvalid([](Communicator& comm) {
    Buffer data(DType::kF32, 6);
    if (comm.rank() == 2) return comm.Broadcast(data.view(), 1);
    return comm.AllReduce(data.view(), ReduceOp::kSum);
  });
}

TEST(ThreadGroup, DifferentSizesAreInvalidOnAllRanks) {
  ExpectAllInvalid([](Communicator& comm) {
    Buffer data(DType::kF32, comm.rank() == 1 ? 5 : 6);
    return comm.AllReduce(data.view(), ReduceOp::kSum);
  });
}

TEST(ThreadGroup, DifferentTypesAreInvalidOnAllRanks) {
  ExpectAllInvalid([](Communicator& comm) {
    Buffer data(comm.rank() == 0 ? DType::kI32 : DType::kF32, 6);
    return comm.ReduceScatter(data.view(), ReduceOp::kMax);
  });
}

TEST(ThreadGroup, ABadArgumentOfOneRankFailsOnAllAndNamesIt) {
  ExpectAllInvalid([](Communicator& comm) {
    Buffer data(comm.rank() == 2 ? DType::kBytes : DType::kF32, 6);
    return comm.AllReduce(data.view(), ReduceOp::kSum);
  });
}

TEST(ThreadGroup, AMessageOfAnotherSizeIsInvalidOnBothSides) {
  const absl::Status run = RunRanks(2, [](Communicator& comm) {
    Buffer data(DType::kF32, comm.rank() == 0 ? 4 : 5);
    const absl::Status status =
        comm.rank() == 0 ? comm.Send(data.view(), 1) : comm.Recv(data.view(), 0);
    return absl::IsInvalidArgument(status) ? comm.Barrier() : Fail(status.ToString());
  });
  EXPECT_TRUE(run.ok()) << run;
}

TEST(ThreadGroup, SumsAreMadeInRankOrder) {
  constexpr size_t kCount = 10007;
  constexpr int kSize = 4;
  std::vector<std::vector<float>> values(kSize, std::vector<float>(kCount));
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (auto& rank : values) {
    for (float& value : rank) value = normal(random);
  }
  std::vector<float> expected = values[0];
  for (int r = 1; r < kSize; ++r) {
    for (size_t i = 0; i < kCount; ++i) expected[i] += values[r][i];
  }
  const absl::Status run = RunRanks(kSize, [&](Communicator& comm) {
    return comm.AllReduce({values[comm.rank()].data(), DType::kF32, Shape{kCount}}, ReduceOp::kSum);
  });
  EXPECT_TRUE(run.ok()) << run;
  for (const auto& rank : values) EXPECT_EQ(rank, expected);
}

TEST(ThreadGroup, NobodyPassesABarrierBeforeTheLastArrives) {
  std::atomic<int> arrived = 0;
  const absl::Status run = RunRanks(8, [&](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      MILLRACE_RETURN_IF_ERROR(comm.Barrier());
      if (arrived.load() < 8 * round) return Fail("passed early");
      MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

TEST(ThreadGroup, AFailingRankWakesItsPeersAndItsStatusIsReturned) {
  std::vector<absl::Status> outcomes(4);
  const absl::Status run = RunRanks(4, [&](Communicator& comm) {
    Buffer data(DType::kF32, 9);
    switch (comm.rank()) {
      case 2:
        return absl::DataLossError("shard 7 is corrupt");
      case 1:
        return outcomes[1] = comm.Recv(data.view(), 3);
      default:
        return outcomes[comm.rank()] = comm.AllReduce(data.view(), ReduceOp::kSum);
    }
  });
  EXPECT_TRUE(absl::IsDataLoss(run)) << run;
  for (const int rank : {0, 1, 3}) {
    EXPECT_MESSAGE(outcomes[rank], absl::StatusCode::kCancelled, "peers");
  }
}

TEST(ThreadGroup, AnAbortEndsSplitGroupsAndLaterCallsToo) {
  std::atomic<int> cancelled = 0;
  const absl::Status run = RunRanks(4, [&](Communicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(const auto half, comm.Split(comm.rank() / 2, 0));
    if (comm.rank() == 3) half->Abort(absl::InternalError("no"));
    if (comm.rank() != 3 && absl::IsCancelled(half->Barrier())) cancelled.fetch_add(1);
    if (absl::IsCancelled(comm.Barrier())) cancelled.fetch_add(1);
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
  // Ranks 0 and 1 may pass their half's barrier before the abort; nothing later passes.
  EXPECT_GE(cancelled.load(), 5);
}

TEST(ThreadGroup, AnAbortFromAnotherThreadWakesAWaitingRank) {
  auto group = MakeThreadGroup(2);
  std::jthread watchdog([&group] { group[1]->Abort(absl::DeadlineExceededError("stalled")); });
  const absl::Status status = group[0]->Barrier();
  EXPECT_MESSAGE(status, absl::StatusCode::kCancelled);
}

TEST(ThreadGroup, APeerThatLeftIsUnavailable) {
  auto group = MakeThreadGroup(2);
  std::jthread leaver([&group] { group[1].reset(); });
  Buffer data(DType::kU8, 3);
  EXPECT_TRUE(absl::IsUnavailable(group[0]->Recv(data.view(), 1)));
  EXPECT_TRUE(absl::IsUnavailable(group[0]->Send(data.view(), 1)));
  EXPECT_MESSAGE(group[0]->Barrier(), absl::StatusCode::kUnavailable);
}

TEST(RunRanks, WithoutAnOwnFailureTheLowestRankIsReported) {
  const absl::Status run = RunRanks(3, [](Communicator& comm) {
    return comm.rank() == 0 ? absl::OkStatus() : absl::NotFoundError(absl::StrCat(comm.rank()));
  });
  EXPECT_EQ(run, absl::NotFoundError("1"));
}

TEST(ThreadGroup, OfNoRanksHasNoCommunicator) {
  EXPECT_TRUE(MakeThreadGroup(0).empty());
  EXPECT_TRUE(MakeThreadGroup(-1).empty());
}

TEST(RunRanks, RefusesAnEmptyGroup) {
  EXPECT_TRUE(absl::IsInvalidArgument(RunRanks(0, [](Communicator&) { return absl::OkStatus(); })));
}

TEST(Backends, SingleAndThreadsAreAlwaysThere) {
  EXPECT_THAT(BackendNames(), testing::IsSupersetOf({"single", "threads"}));
}

}  // namespace
}  // namespace millrace::collectives
