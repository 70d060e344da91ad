// The mirrored strategy, and processes of several replicas each: as threads of threads.

#include "trainer/replicas.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "base/affinity.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/messages.h"
#include "tests/trainer/backend/fake_backend.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Tensors = std::map<std::string, std::vector<float>>;

class ReplicasTest : public TrainTest {
 protected:
  // Trains in `processes` of the options' replicas; `parts_` by rank of the training. Statuses are
  // by process.
  absl::StatusOr<TrainOutcome> RunReplicas(int processes, int replicas) {
    lines_.clear();
    reported_.clear();
    statuses_.assign(processes, absl::OkStatus());
    TrainOutcome outcome;
    const auto body = [&](collectives::Communicator& process) {
      const RankTrainer train = [this](const TrainOptions& options,
                                       collectives::Communicator& rank) {
        EXPECT_EQ(rank.timeout().count(), 0);  // that of the start is over
        TrainParts parts;
        if (change_parts_) change_parts_(parts, rank);
        return TrainWith(parts, options, rank);
      };
      const auto trained = TrainReplicasWith(train, OptionsOf(process, replicas), process);
      const std::lock_guard lock(mu_);
      statuses_[process.rank()] = trained.status();
      if (trained.ok() && process.rank() == 0) outcome = *trained;
      return trained.status();
    };
    const absl::Status status =
        processes == 1 ? collectives::RunRanks(1, body) : collectives::RunTcpRanks(processes, body);
    if (!status.ok()) return status;
    return outcome;
  }

  TrainOptions OptionsOf(const collectives::Communicator& process, int replicas) {
    TrainOptions options;
    options.job_path = folder_ / "job.pbtxt";
    options.variables = {{"DATA", folder_}};
    options.replicas = replicas;
    options.stop = stop_;
    options.print = [this](std::string_view line) { lines_.emplace_back(line); };
    options.report = [this, rank = process.rank()](const absl::Status& why) {
      const std::lock_guard lock(mu_);
      reported_.emplace_back(rank, std::string(why.message()));
    };
    if (adjust_) adjust_(options, process);
    return options;
  }

  // Trains from the start; returns the last checkpoint's tensors.
  Tensors Trained(const std::function<absl::StatusOr<TrainOutcome>()>& run) {
    RemoveCheckpoints();
    Tensors tensors;
    const absl::StatusOr<TrainOutcome> outcome = run();
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return tensors;
    for (auto& [name, tensor] : Load(outcome->checkpoint).tensors) tensors[name] = tensor.data;
    return tensors;
  }

  const std::atomic<bool>* stop_ = nullptr;
};

// S-TRAIN-2.
TEST_F(ReplicasTest, ReplicasHaveTheBitsOfAsManyRanks) {
  const Tensors two = Trained([&] { return Run(2); });
  const Tensors four = Trained([&] { return Run(4); });
  EXPECT_EQ(Trained([&] { return RunReplicas(1, 2); }), two);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("2 (2 on this host), threads"),
                                     HasSubstr("1 process of 2 replicas"))));
  EXPECT_EQ(Trained([&] { return RunReplicas(2, 2); }), four);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("4 (4 on this host), tcp"),
                                     HasSubstr("2 processes of 2 replicas"))));
  EXPECT_THAT(lines_, Contains(HasSubstr("total: 10 steps, 74 samples")))
      << "every sample is read by one replica";
  EXPECT_THAT(lines_, Contains(StartsWith("verdict of rank 0: ")));
}

TEST_F(ReplicasTest, TheJobNamesThemUnlessTheOptionsDo) {
  WriteJob("checkpoints", "", "epochs: 1 strategy { mirrored { replicas: 3 } }");
  const absl::StatusOr<TrainOutcome> job = RunReplicas(1, 0);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(lines_, Contains(HasSubstr("3 (3 on this host), threads")));
  RemoveCheckpoints();
  const absl::StatusOr<TrainOutcome> option = RunReplicas(1, 1);
  ASSERT_TRUE(option.ok()) << option.status();
  EXPECT_THAT(lines_, Contains(HasSubstr("1 (1 on this host)")));
}

TEST_F(ReplicasTest, ACheckpointContinuesWithAnyNumberOfThem) {
  std::atomic<bool> stop = true;
  stop_ = &stop;
  const absl::StatusOr<TrainOutcome> stopped = RunReplicas(2, 2);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(stopped->stopped);
  stop = false;
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) { options.resume = true; };
  WriteJob("checkpoints", "", "epochs: 2 strategy { mirrored { replicas: 2 } }");
  const absl::StatusOr<TrainOutcome> resumed = RunReplicas(1, 0);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->steps, static_cast<uint64_t>(kSteps));
}

TEST_F(ReplicasTest, ProcessesThatDifferEndTogether) {
  adjust_ = [](TrainOptions& options, const collectives::Communicator& process) {
    options.replicas = 1 + process.rank();
  };
  (void)RunReplicas(2, 0);
  for (const absl::Status& status : statuses_) {
    EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument, "every-process");
  }
  EXPECT_THAT(reported_, SizeIs(1));
}

TEST_F(ReplicasTest, AJobThatOneProcessLacksEndsAllWithItsName) {
  adjust_ = [](TrainOptions& options, const collectives::Communicator& process) {
    if (process.rank() == 1) options.job_path += ".gone";
  };
  (void)RunReplicas(2, 0);
  for (const absl::Status& status : statuses_) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("job.pbtxt.gone"));
  }
  EXPECT_THAT(reported_, ElementsAre(Pair(0, HasSubstr("job.pbtxt.gone"))));
}

// A replica fails by itself in the middle of a step.
TEST_F(ReplicasTest, AReplicaThatFailsEndsAllWithItsReason) {
  std::array<FakeHooks, 4> hooks;  // by rank
  hooks[2].step = [] { throw std::bad_alloc(); };
  change_parts_ = [&hooks](TrainParts& parts, const collectives::Communicator& rank) {
    parts.make_backend = FakeBackend::Factory(hooks[rank.rank()]);
  };
  (void)RunReplicas(2, 2);
  EXPECT_THAT(reported_, Contains(Pair(1, AllOf(HasSubstr("rank 2"), HasSubstr("out of memory")))));
  EXPECT_EQ(statuses_[1].code(), absl::StatusCode::kResourceExhausted)
      << "the process's own failure: " << statuses_[1];
  EXPECT_FALSE(statuses_[0].ok());
}

TEST_F(ReplicasTest, EachIsBoundToItsCores) {
  const std::vector<int> before = UsableProcessors();
  if (before.size() < 2) GTEST_SKIP() << "needs two processors";
  const absl::StatusOr<TrainOutcome> outcome = RunReplicas(1, 2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(lines_, Contains(HasSubstr("each bound to its cores")));
  EXPECT_EQ(UsableProcessors(), before) << "only the replicas' threads are bound";
}

}  // namespace
}  // namespace millrace::trainer
