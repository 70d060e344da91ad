// The conformance suites over TCP between threads: with what breaks a group, for every test has its
// own connections. tcp_test.cc has processes.
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/gather_texts.h"
#include "collectives/replicas.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

Backend Tcp(int size) {
  return {absl::StrCat("ranks", size),
          [size](const RankBody& body) { return RunTcpRanks(size, body); }};
}

// Processes of `replicas` ranks each, as threads of threads.
Backend Replicas(int processes, int replicas) {
  return {absl::StrCat(processes, "x", replicas, "replicas"),
          [processes, replicas](const RankBody& body) {
            return RunTcpRanks(processes, [&](Communicator& process) {
              MILLRACE_ASSIGN_OR_RETURN(auto ranks,
                                        MakeReplicas(process, replicas, std::chrono::seconds(60)));
              return RunGroup(std::move(ranks), body);
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorConformance, testing::Values(Tcp(2), Tcp(3), Tcp(5)),
                         BackendInstanceName);

INSTANTIATE_TEST_SUITE_P(Replicas, CommunicatorConformance, testing::Values(Replicas(2, 2)),
                         BackendInstanceName);

TEST(ReplicasTest, ProcessPHasTheRanksFromPTimesReplicasOn) {
  std::atomic<int> ranks = 0;
  const absl::Status run = RunTcpRanks(2, [&](Communicator& process) {
    MILLRACE_ASSIGN_OR_RETURN(const auto group, MakeReplicas(process, 3, std::chrono::seconds(60)));
    for (size_t i = 0; i < group.size(); ++i) {
      EXPECT_EQ(group[i]->rank(), process.rank() * 3 + static_cast<int>(i));
      EXPECT_EQ(group[i]->size(), 6);
      EXPECT_EQ(group[i]->local_size(), 6);
    }
    ranks += static_cast<int>(group.size());
    return process.Barrier();
  });
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_EQ(ranks, 6);
}

TEST(ReplicasTest, ProcessesThatDifferInTheirReplicasGetTheSameError) {
  std::vector<absl::Status> outcomes(2);
  (void)RunTcpRanks(2, [&](Communicator& process) {
    outcomes[process.rank()] =
        MakeReplicas(process, 2 + process.rank(), std::chrono::seconds(60)).status();
    return absl::OkStatus();
  });
  for (const absl::Status& outcome : outcomes) {
    EXPECT_MESSAGE(outcome, absl::StatusCode::kInvalidArgument, "every-process");
  }
}

TEST(ReplicasTest, OneProcessHasAThreadGroupWithItsTimeout) {
  const auto process = MakeSingle();
  process->set_timeout(std::chrono::seconds(7));
  const auto ranks = MakeReplicas(*process, 2, std::chrono::seconds(60));
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  ASSERT_EQ(ranks->size(), 2u);
  EXPECT_EQ((*ranks)[1]->backend(), "threads");
  EXPECT_EQ((*ranks)[1]->timeout(), std::chrono::seconds(7));
  EXPECT_EQ(MakeReplicas(*process, 0, std::chrono::seconds(60)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GatherTextsTest, EveryRankHasAllTextsWhateverTheirLengths) {
  const std::vector<std::string> texts = {"", "a longer text", "b"};
  const absl::Status run = RunRanks(3, [&](Communicator& rank) {
    MILLRACE_ASSIGN_OR_RETURN(const auto gathered, GatherTexts(rank, texts[rank.rank()]));
    EXPECT_EQ(gathered, texts);
    MILLRACE_ASSIGN_OR_RETURN(const auto empty, GatherTexts(rank, ""));
    EXPECT_EQ(empty, std::vector<std::string>(3));
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

}  // namespace
}  // namespace millrace::collectives
