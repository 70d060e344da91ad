// Trainings on parameter servers whose processes are threads, over TCP.

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_join.h"
#include "collectives/peer_lost.h"
#include "tests/trainer/backend/fake_backend.h"
#include "tests/trainer/server/server_fixture.h"
#include "trainer/model/parameters.h"
#include "trainer/rank_view.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

std::string Synchronous(int servers, const char* more = "") {
  return absl::StrCat("epochs: 2 strategy { parameter_server { servers: ", servers,
                      " synchronous: true ", more, " } }");
}

std::string Asynchronous(int servers, const char* more = "") {
  return absl::StrCat("epochs: 2 strategy { parameter_server { servers: ", servers, " ", more,
                      " } }");
}

class TrainOnServersTest : public ServerTest {
 protected:
  // The tensors of a checkpoint, and its metadata.
  TensorFile Trained(const absl::StatusOr<TrainOutcome>& outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.status() << absl::StrJoin(statuses_, "\n", Text);
    return outcome.ok() ? Load(outcome->checkpoint) : TensorFile();
  }
  // As RunOnServers, but stops after `lines` lines of steps.
  absl::StatusOr<TrainOutcome> StopAfter(size_t lines, int workers, int servers) {
    std::atomic<bool> stop{false};
    adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
      if (communicator.rank() != 0) return;
      options.stop = &stop;
      options.print = [this, lines, &stop, print = options.print](std::string_view line) {
        print(line);
        if (steps_.size() == lines) stop = true;
      };
    };
    auto outcome = RunOnServers(workers, servers);
    adjust_ = nullptr;
    return outcome;
  }
  // Gradients that have come.
  static uint64_t Batches(const ServerCounts& counts) {
    return std::accumulate(counts.staleness.begin(), counts.staleness.end(), counts.dropped);
  }
  static void Text(std::string* out, const absl::Status& status) { *out += status.ToString(); }
};

void ExpectSameTensors(const TensorFile& a, const TensorFile& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    ASSERT_TRUE(b.tensors.contains(name)) << name;
    EXPECT_EQ(tensor.data, b.tensors.at(name).data) << name;
  }
}

// S-TRAIN-8.
TEST_F(TrainOnServersTest, SynchronousTrainingHasTheBitsOfRanksThatGoInStep) {
  for (const int workers : {1, 2, 3}) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "", "epochs: 2 reduction { exact: true }");
    const TensorFile ranks = Trained(Run(workers));
    for (const int servers : {1, 2}) {
      RemoveCheckpoints();
      WriteJob("checkpoints", "", Synchronous(servers));
      const auto outcome = RunOnServers(workers, servers);
      const TensorFile served = Trained(outcome);
      ExpectSameTensors(ranks, served);
      EXPECT_EQ(served.metadata, ranks.metadata);
      ASSERT_TRUE(outcome.ok());
      EXPECT_EQ(outcome->servers.staleness, std::vector<uint64_t>{uint64_t(workers * kSteps)});
      EXPECT_EQ(outcome->servers.dropped, 0u);
      EXPECT_EQ(steps_.size(), size_t{kSteps});
    }
  }
}

TEST_F(TrainOnServersTest, OneWorkerAloneHasTheSameBitsWithoutWaitingForOthers) {
  const TensorFile alone = Trained(Run(1));
  RemoveCheckpoints();
  WriteJob("checkpoints", "", Asynchronous(2, "max_staleness: 0"));
  ExpectSameTensors(alone, Trained(RunOnServers(1, 2)));
}

TEST_F(TrainOnServersTest, AnAsynchronousTrainingUsesEachGradientOrCountsIt) {
  WriteJob("checkpoints", "", Asynchronous(2, "max_staleness: 1"));
  const auto outcome = RunOnServers(3, 2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_LE(outcome->servers.staleness.size(), 2u);  // none is older than the limit
  EXPECT_EQ(Batches(outcome->servers), uint64_t{3 * kSteps});
  EXPECT_EQ(outcome->steps, Batches(outcome->servers) - outcome->servers.dropped);
  EXPECT_EQ(outcome->servers.unread, 0u);
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("staleness   0:")));
}

// The first two processes that are worker 1 fail in their first batch. The chief is in its own
// first batch until the third one has come so far.
TEST_F(TrainOnServersTest, AWorkerThatIsLostTwiceComesAgainAndEachBatchIsUsedOnce) {
  for (const char* const mode : {"max_staleness: 1000", "synchronous: true"}) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "", Asynchronous(2, mode));
    std::vector<FakeHooks> hooks(3);
    std::promise<void> third;
    int lives = 0;
    const std::function<void()> begin = [&] {
      hooks[1].opening = begin;
      hooks[1].step = [&third, is_last = ++lives == 3] {
        if (!is_last) throw std::runtime_error("killed");
        third.set_value();
      };
    };
    hooks[0].step = [&] { third.get_future().wait(); };
    hooks[1].opening = begin;
    change_parts_ = [&](TrainParts& parts, const collectives::Communicator& communicator) {
      if (communicator.rank() < 3) {
        parts.make_backend = FakeBackend::Factory(hooks[communicator.rank()]);
      }
    };
    returns_ = 2;
    const auto outcome = RunOnServers(3, 2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->servers.lost, 2u);
    EXPECT_EQ(outcome->servers.joined, 2u);
    EXPECT_EQ(outcome->servers.dropped + outcome->servers.unread, 0u);
    EXPECT_EQ(Batches(outcome->servers), uint64_t{3 * kSteps});
    EXPECT_THAT(warnings_, ::testing::Contains(HasSubstr("worker 1 is lost at update")));
  }
}

// A running mean of the weights, statistics of batches, and norms of whole parameters.
TEST_F(TrainOnServersTest, StatisticsAveragesAndTrustRatiosHaveTheBitsOfRanksThatGoInStep) {
  Write(folder_ / "model.pbtxt",
        "layer { input_layer { shape: 6 shape: 6 shape: 1 } }\n"
        "layer { convolution { filters: 4 kernel: 3 } } layer { batch_norm {} } layer { relu {} }\n"
        "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }\n");
  const char* const lars = "base_lr: 0.5 lars { momentum: 0.5 } ema { decay: 0.9 }";
  WriteJob("checkpoints", lars, "epochs: 2 reduction { exact: true }");
  const TensorFile ranks = Trained(Run(2));
  RemoveCheckpoints();
  WriteJob("checkpoints", lars, Synchronous(2));
  const TensorFile served = Trained(RunOnServers(2, 2));
  ExpectSameTensors(ranks, served);
  EXPECT_TRUE(served.tensors.contains("ema/conv1/weights"));
  EXPECT_EQ(served.metadata, ranks.metadata);
}

TEST_F(TrainOnServersTest, AnUpdateIsOfTheFirstGradientsWhereAWorkerIsABackup) {
  WriteJob("checkpoints", "", Synchronous(1, "backup_workers: 1"));
  const auto outcome = RunOnServers(3, 1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, uint64_t{kSteps});
  EXPECT_EQ(outcome->servers.staleness, std::vector<uint64_t>{2 * kSteps});
  EXPECT_EQ(outcome->servers.dropped + outcome->servers.unread, uint64_t{kSteps});
}

// Stops after some lines of steps.
TEST_F(TrainOnServersTest, ASynchronousTrainingContinuesWithItsBitsOnOtherNumbersOfProcesses) {
  WriteJob("checkpoints", "", "epochs: 2 reduction { exact: true }");
  const TensorFile whole = Trained(Run(1));
  RemoveCheckpoints();
  WriteJob("checkpoints", "", Synchronous(1));
  const auto stopped = StopAfter(4, 1, 1);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(stopped->stopped);
  EXPECT_EQ(stopped->steps, 4u);
  WriteJob("checkpoints", "", Synchronous(3));
  ExpectSameTensors(whole, Trained(RunOnServers(1, 3, /*resume=*/true)));
}

TEST_F(TrainOnServersTest, ARunThatContinuesReadsEachBatchOnce) {
  WriteJob("checkpoints", "", Asynchronous(2));
  const auto stopped = StopAfter(5, 3, 2);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  const TensorFile file = Load(stopped->checkpoint);
  EXPECT_TRUE(file.metadata.contains("worker_2"));
  const auto rest = RunOnServers(3, 2, /*resume=*/true);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(Batches(stopped->servers) + Batches(rest->servers), uint64_t{3 * kSteps});
  EXPECT_EQ(rest->servers.unread, 0u);
}

TEST_F(TrainOnServersTest, WorkersThatDidNotGoInStepAreAsManyOnResume) {
  WriteJob("checkpoints", "", Asynchronous(2));
  ASSERT_TRUE(StopAfter(5, 3, 2).ok());
  const auto refused = RunOnServers(2, 2, /*resume=*/true);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("of 3 workers that did not go in step, not of 2"));
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) { options.force = true; };
  EXPECT_TRUE(RunOnServers(2, 2, /*resume=*/true).ok());
  EXPECT_THAT(warnings_, ::testing::Contains(HasSubstr("resuming by force")));
}

TEST_F(TrainOnServersTest, AWorkerThatCannotBeginEndsTheTrainingForAll) {
  WriteJob("checkpoints", "", Asynchronous(2));
  change_parts_ = [](TrainParts& parts, const collectives::Communicator& communicator) {
    if (communicator.rank() != 1) return;
    parts.make_backend = [](auto&&...) -> absl::StatusOr<std::unique_ptr<Backend>> {
      return absl::InternalError("no such instruction");
    };
  };
  (void)RunOnServers(2, 2);
  for (const absl::Status& status : statuses_) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                ::testing::ContainsRegex("worker 1: .*job.pbtxt: no such instruction"));
  }
}

TEST_F(TrainOnServersTest, ALossThatIsNotFiniteEndsTheTrainingForAll) {
  WriteShard(folder_ / "train-0.tfrecord", 0, 20, /*bad=*/-1, /*infinite=*/3);
  WriteJob("checkpoints", "", Asynchronous(2));
  (void)RunOnServers(2, 2);
  for (const absl::Status& status : statuses_) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not finite (learning rate"));
  }
}

// The loss of this backend is always finite, and its gradients are the weights.
TEST_F(TrainOnServersTest, AWeightThatIsNotFiniteEndsTheTrainingForAllAtTheNextLine) {
  Write(folder_ / "job.pbtxt", absl::StrCat("model: \"model.pbtxt\" train: \"train.pbtxt\" ",
                                            "log_every_steps: 4 ", Synchronous(2)));
  std::vector<FakeHooks> hooks(2);
  change_parts_ = [&](TrainParts& parts, const collectives::Communicator& communicator) {
    if (communicator.rank() < 2) {
      parts.make_backend = FakeBackend::Factory(hooks[communicator.rank()]);
    }
  };
  adjust_ = [](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 1) return;
    options.on_weights = [](uint64_t version, std::vector<std::vector<float>>& weights) {
      if (version == 5) weights[0][0] = std::nanf("");
    };
  };
  (void)RunOnServers(2, 2);
  for (const absl::Status& status : statuses_) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("update 8: a value of 'conv1/weights' is not finite"));
  }
  EXPECT_EQ(steps_.size(), 1u);
}

TEST_F(TrainOnServersTest, AWorkerThatIsSilentIsGivenUpAndTheOthersGoOn) {
  WriteJob("checkpoints", "", Synchronous(2));
  FakeHooks hooks;
  std::promise<void> given_up;
  hooks.step = [&] { given_up.get_future().wait(); };
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.stall_abort = std::chrono::milliseconds(1);
    if (communicator.rank() != 2) return;
    options.warn = [&](std::string_view line) {
      if (line.find("worker 1 is lost at update 0: it has been silent") != line.npos) {
        given_up.set_value();
      }
    };
  };
  change_parts_ = [&](TrainParts& parts, const collectives::Communicator& communicator) {
    if (communicator.rank() == 1) parts.make_backend = FakeBackend::Factory(hooks);
  };
  const auto outcome = RunOnServers(2, 2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, uint64_t{kSteps});
  EXPECT_EQ(outcome->servers.unread, uint64_t{kSteps});
  const auto lost = collectives::PeerLostOf(statuses_[1]);
  ASSERT_TRUE(lost.has_value()) << statuses_[1];
  EXPECT_EQ(lost->rank, 1);
}

TEST_F(TrainOnServersTest, EachWorkerCanBeLookedAt) {
  WriteJob("checkpoints", "", Synchronous(1));
  std::map<int, std::shared_ptr<const RankView>> views;
  adjust_ = [this, &views](TrainOptions& options, const collectives::Communicator&) {
    options.observe = [this, &views](std::shared_ptr<const RankView> view) {
      const std::lock_guard lock(mu_);
      views[view->rank()] = std::move(view);
    };
  };
  const auto outcome = RunOnServers(2, 1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(views.size(), 2u);
  for (const auto& [rank, view] : views) {
    EXPECT_EQ(view->world(), 2);
    EXPECT_GT(view->figures().times.steps, 0u);
    EXPECT_GT(view->figures().times.samples, 0);
    EXPECT_TRUE(view->figures().loss.has_value());
    EXPECT_GT(view->profile().batches, 0);
  }
}

TEST_F(TrainOnServersTest, RanksThatGoInStepRefuseTheStrategy) {
  WriteJob("checkpoints", "", Asynchronous(2));
  EXPECT_THAT(std::string(Run(2).status().message()),
              HasSubstr("strategy.parameter_server is for processes that do not go in step"));
}

TEST_F(TrainOnServersTest, AServerIsNotTheOnlyRank) {
  WriteJob("checkpoints", "", Asynchronous(2));
  (void)RunOnServers(0, 2);
  EXPECT_THAT(std::string(statuses_[1].message()),
              HasSubstr("strategy.parameter_server.servers: 2 of 2 ranks leave no worker"));
}

}  // namespace
}  // namespace millrace::trainer
