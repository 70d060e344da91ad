// What a training does about a peer that leaves it: every other rank ends with who it was and
// where.

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/peer_lost.h"
#include "collectives/watchdog.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/messages.h"
#include "tests/trainer/backend/fake_backend.h"
#include "tests/trainer/loop/sees_asks.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/session.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/guard.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kLeaver = 1;

// Trains with a backend that computes nothing and calls the test in the midst of its life.
class FakeTrainTest : public TrainTest {
 protected:
  FakeTrainTest() {
    change_parts_ = [this](TrainParts& parts, const collectives::Communicator& communicator) {
      parts = PartsOf(communicator.rank());
    };
  }

  TrainParts PartsOf(int rank) {
    return {.make_backend = FakeBackend::Factory(hooks_[rank]), .limits = limits_};
  }

  std::array<FakeHooks, kRanks> hooks_;  // by rank
  GuardLimits limits_;
};

class LostPeerTest : public FakeTrainTest {
 protected:
  LostPeerTest() { limits_.leave = std::chrono::milliseconds(100); }

  // Trains on all ranks but one, which opens the training too, does `part` of its first step, and
  // goes; with `stays` it keeps its communicator until the others have ended.
  void RunWithALeaver(const std::function<absl::Status(collectives::Communicator&, Session&)>& part,
                      bool stays) {
    std::latch others(kRanks - 1);
    outcomes_.assign(kRanks, absl::OkStatus());
    (void)collectives::RunRanks(kRanks, [&](collectives::Communicator& communicator) {
      TrainOptions options;
      options.job_path = folder_ / "job.pbtxt";
      options.variables = {{"DATA", folder_}};
      options.threads = 1;
      if (communicator.rank() == kLeaver) {
        const absl::Status left = Leave(options, communicator, part);
        if (stays) others.wait();
        return left;
      }
      const absl::Status status =
          TrainWith(PartsOf(communicator.rank()), options, communicator).status();
      EXPECT_TRUE(fs::exists(folder_ / "checkpoints/checkpoint-00000000.safetensors"))
          << "rank " << communicator.rank() << " does not wait for the one that saves";
      others.count_down();
      outcomes_[communicator.rank()] = status;
      return status;
    });
  }

  absl::Status Leave(
      const TrainOptions& options, collectives::Communicator& communicator,
      const std::function<absl::Status(collectives::Communicator&, Session&)>& part) {
    MILLRACE_ASSIGN_OR_RETURN(const auto guard, Guard::Make(options, communicator));
    MILLRACE_ASSIGN_OR_RETURN(const auto session, OpenSession(options, communicator,
                                                              guard->progress(), PartsOf(kLeaver)));
    return part(communicator, *session);
  }

  void CheckOthersNameIt() {
    std::string said;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kLeaver) continue;
      const absl::Status& status = outcomes_[rank];
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      const auto lost = collectives::PeerLostOf(status);
      ASSERT_TRUE(lost.has_value()) << status;
      EXPECT_EQ(lost->rank, kLeaver) << status;
      said += std::string(status.message());
    }
    EXPECT_THAT(said, AllOf(HasSubstr("rank 1 is lost"), HasSubstr("saved step 0: ")));
    EXPECT_TRUE(fs::exists(folder_ / "checkpoints/checkpoint-00000000.safetensors"));
  }

  std::vector<absl::Status> outcomes_;  // by rank
};

absl::Status LeaveBeforeTheStep(collectives::Communicator&, Session&) { return absl::OkStatus(); }

// After the talk of the loop about the batch, and a gradient.
absl::Status LeaveInTheReducer(collectives::Communicator& communicator, Session& session) {
  std::array<double, 2 + kRanks> flags = {};
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator, flags));
  session.main().strategy->SetRows(0);
  return session.main().strategy->MarkReady(session.model.parameters.size() - 1);
}

TEST_F(LostPeerTest, ARankThatLeavesItsReducerInAStepIsLost) {
  RunWithALeaver(LeaveInTheReducer, /*stays=*/false);
  CheckOthersNameIt();
}

TEST_F(LostPeerTest, ARankThatLeavesItsReducerButNotTheGroupIsLost) {
  RunWithALeaver(LeaveInTheReducer, /*stays=*/true);
  CheckOthersNameIt();
}

TEST_F(LostPeerTest, ARankThatEndsItsRunEarlierIsLost) {
  RunWithALeaver(LeaveBeforeTheStep, /*stays=*/false);
  CheckOthersNameIt();
}

TEST_F(LostPeerTest, ARankThatEndsItsRunButNotTheGroupIsLost) {
  RunWithALeaver(LeaveBeforeTheStep, /*stays=*/true);
  CheckOthersNameIt();
}

constexpr char kSynchronized[] =
    "layer { input_layer { shape: [6, 6, 1] } }\n"
    "layer { convolution { filters: 2 kernel: 3 bias: false } }\n"
    "layer { batch_norm { synchronized: true } } layer { relu {} }\n"
    "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }\n";

// After the talk of the loop about the batch: the others wait in the sums of a layer.
absl::Status LeaveInASum(collectives::Communicator& communicator, Session&) {
  std::array<double, 2 + kRanks> flags = {};
  return MaxOverRanks(communicator, flags);
}

TEST_F(LostPeerTest, ARankThatLeavesInASumOfALayerIsLost) {
  Write(folder_ / "model.pbtxt", kSynchronized);
  for (const bool stays : {false, true}) {
    RunWithALeaver(LeaveInASum, stays);
    CheckOthersNameIt();
    RemoveCheckpoints();
  }
}

TEST(TrainOptionsTest, StallsHaveTheLimitsOfTheWatchdog) {
  EXPECT_EQ(TrainOptions().stall_report, collectives::WatchdogOptions().stall_report);
  EXPECT_EQ(TrainOptions().stall_abort, collectives::WatchdogOptions().stall_abort);
}

// A rank that hangs until it is named.
class Hanging {
 public:
  // By a warning with these parts.
  Hanging(std::string name, std::string place) : name_(std::move(name)), place_(std::move(place)) {}
  // On any rank's watchdog.
  void Warn(std::string_view line) {
    const std::lock_guard lock(mu_);
    const size_t at = line.find(name_);
    if (at == std::string_view::npos || line.find(place_, at) == std::string_view::npos) return;
    named_ = true;
    changed_.notify_all();
  }
  // False: nobody does.
  bool AwaitName() {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return named_; });
  }

 private:
  const std::string name_;
  const std::string place_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool named_ = false;
};

class HangTest : public FakeTrainTest {
 protected:
  void SetUp() override {
    adjust_ = [this](TrainOptions& options, const collectives::Communicator& communicator) {
      options.stall_report = std::chrono::milliseconds(300);
      options.warn = [this](std::string_view line) { hanging_->Warn(line); };
      if (more_) more_(options, communicator);
    };
  }

  std::unique_ptr<Hanging> hanging_;
  std::function<void(TrainOptions&, const collectives::Communicator&)> more_;
};

// The others have opened theirs and wait for it.
TEST_F(HangTest, ARankThatHangsWhileTheTrainingIsOpenedIsNamed) {
  hanging_ = std::make_unique<Hanging>("rank 1 has not come on for", ": start");
  bool was_named = false;
  hooks_[1].opening = [&] { was_named = hanging_->AwaitName(); };
  EXPECT_TRUE(Run(kRanks).ok());
  EXPECT_TRUE(was_named);
}

// The others are done, but for the timeline that it has to write.
TEST_F(HangTest, ARankThatHangsAtTheEndIsNamed) {
  hanging_ = std::make_unique<Hanging>("rank 0 has not come on for", ": updating");
  bool was_named = false;
  more_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.timeline_file = folder_ / "timeline.json";
    if (communicator.rank() != 0) return;
    options.print = [&](std::string_view line) {
      if (line.starts_with("total: ")) was_named = hanging_->AwaitName();
    };
  };
  EXPECT_TRUE(Run(kRanks).ok());
  EXPECT_TRUE(was_named);
}

// The others wait for the losses that the log shows.
TEST_F(HangTest, ARankThatHangsBeforeTheLogIsNamed) {
  hanging_ = std::make_unique<Hanging>("rank 1 has not come on for", ", step ");
  more_ = [this](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 1) return;
    options.on_weights = [this](uint64_t step, std::vector<std::vector<float>>&) {
      EXPECT_TRUE(step != 2 || hanging_->AwaitName());
    };
  };
  EXPECT_TRUE(Run(kRanks).ok());
}

// None of its gradients is there yet: the first bucket is what the others wait for.
TEST_F(HangTest, ARankThatHangsInComputationIsInTheFirstBucket) {
  hanging_ = std::make_unique<Hanging>("rank 1", ": backward, step 2, bucket 0");
  bool was_named = false;
  more_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 1) return;
    options.on_weights = [&](uint64_t step, std::vector<std::vector<float>>&) {
      if (step == 2) hooks_[1].step = [&] { was_named = hanging_->AwaitName(); };
    };
  };
  EXPECT_TRUE(Run(kRanks).ok());
  EXPECT_TRUE(was_named);
}

// The others wait in the sum of a layer.
TEST_F(HangTest, ARankThatHangsBeforeASumOfALayerIsNamed) {
  Write(folder_ / "model.pbtxt", kSynchronized);
  hanging_ = std::make_unique<Hanging>("rank 1", ": backward, step 2");
  bool was_named = false;
  more_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 1) return;
    options.on_weights = [&](uint64_t step, std::vector<std::vector<float>>&) {
      if (step == 2) hooks_[1].step = [&] { was_named = hanging_->AwaitName(); };
    };
  };
  EXPECT_TRUE(Run(kRanks).ok());
  EXPECT_TRUE(was_named);
}

// The others wait to hear of the checkpoint that rank 0 writes next.
TEST_F(HangTest, ARankThatHangsBeforeItSavesIsNamed) {
  hanging_ = std::make_unique<Hanging>("rank 0 has not come on for", ", step ");
  more_ = [this](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 0) return;
    options.print = [this](std::string_view line) {
      EXPECT_TRUE(!line.starts_with("epoch 2: ") || hanging_->AwaitName());
    };
  };
  EXPECT_TRUE(Run(kRanks).ok());
}

// It tells them (Communicator::Abort) while they wait for the losses that the log shows.
TEST_F(TrainTest, AnErrorOfOneRankLeavesTheOthersTimeToSave) {
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.warn = [&](std::string_view line) {
      const std::lock_guard lock(mu_);
      warnings.emplace_back(line);
    };
    if (communicator.rank() != 1) return;
    options.on_weights = [](uint64_t step, std::vector<std::vector<float>>&) {
      if (step == 4) throw std::runtime_error("an error of its own");
    };
  };
  EXPECT_FALSE(Run(kRanks).ok());
  for (const int rank : {0, 2}) {
    EXPECT_EQ(statuses_[rank].code(), absl::StatusCode::kCancelled) << statuses_[rank];
    EXPECT_FALSE(collectives::PeerLostOf(statuses_[rank]).has_value()) << "it exits with 1";
  }
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_MESSAGE(reported_[0].second);
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints/checkpoint-00000004.safetensors"));
  EXPECT_THAT(warnings, Contains(HasSubstr("another rank has failed; saved step 4: ")));
}

class FailingTest : public TrainTest {
 protected:
  // Rank 1 fails when the others have begun the fifth step of a resumed run.
  void FailInAStep() {
    const absl::StatusOr<TrainOutcome> before = Run(kRanks, /*resume=*/false, /*stop_after=*/1);
    ASSERT_TRUE(before.ok()) << before.status();
    step_ = before->steps + 4;
    run_ranks_ = [](int world, const RankBody& body) {
      return collectives::RunRanks(world, [&](collectives::Communicator& real) {
        const auto fail = [&real](int ask, std::span<double>, double) {
          if (real.rank() == 1 && ask == 5) throw std::runtime_error("an error of its own");
        };
        SeesAsks communicator(
            real, [](int, std::span<const double>) {}, fail);
        return body(communicator);
      });
    };
    EXPECT_FALSE(Run(kRanks, /*resume=*/true).ok());
  }

  void CheckOthersKnowWhy() {
    EXPECT_EQ(statuses_[1].code(), absl::StatusCode::kInternal) << statuses_[1];
    EXPECT_FALSE(collectives::PeerLostOf(statuses_[1]).has_value()) << "it exits with 1";
    for (const int rank : {0, 2}) {
      EXPECT_EQ(statuses_[rank].code(), absl::StatusCode::kUnavailable) << statuses_[rank];
      const auto lost = collectives::PeerLostOf(statuses_[rank]);
      ASSERT_TRUE(lost.has_value()) << statuses_[rank];
      EXPECT_EQ(lost->rank, 1);
      EXPECT_EQ(lost->step, static_cast<int64_t>(step_));
      EXPECT_THAT(std::string(statuses_[rank].message()),
                  HasSubstr(absl::StrCat("rank 1 is lost in step ", step_,
                                         " (updating): it has failed: INTERNAL: exception: an "
                                         "error of its own")));
    }
    CheckStepIsSaved();
  }

  void CheckStepIsSaved() {
    const std::string saved = absl::StrFormat("checkpoints/checkpoint-%08d.safetensors", step_);
    EXPECT_TRUE(fs::exists(folder_ / saved));
  }

  uint64_t step_ = 0;
};

// They wait for its gradients, where no Abort reaches them.
TEST_F(FailingTest, AnErrorOfOneRankInAStepIsHeardByTheOthers) {
  FailInAStep();
  CheckOthersKnowWhy();
}

// They hear that it leaves the sums or, if they come to them later, of its Abort.
TEST_F(FailingTest, AnErrorOfOneRankIsHeardByTheOthersInASumOfALayer) {
  Write(folder_ / "model.pbtxt", kSynchronized);
  FailInAStep();
  for (const int rank : {0, 2}) {
    const absl::Status& status = statuses_[rank];
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("an error of its own"));
  }
  CheckStepIsSaved();
}

// A rank fails whose training takes long to close: until the others have ended, here.
class SlowEndTest : public FakeTrainTest {
 protected:
  static constexpr int kFailing = 0;

  // `fail` is called on the failing rank after step 4.
  void RunWithAFailure(const std::function<void()>& fail) {
    adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
      if (communicator.rank() != kFailing) return;
      hooks_[kFailing].closing = [this] { others_ended_ = AwaitOthers(); };
      options.on_weights = [fail](uint64_t step, std::vector<std::vector<float>>&) {
        if (step == 4) fail();
      };
    };
    run_ranks_ = [this](int world, const RankBody& body) {
      return collectives::RunRanks(world, [&](collectives::Communicator& communicator) {
        const absl::Status status = body(communicator);
        if (communicator.rank() != kFailing) CountEnd();
        return status;
      });
    };
    EXPECT_FALSE(Run(kRanks).ok());
    EXPECT_TRUE(others_ended_);
    EXPECT_TRUE(fs::exists(folder_ / "checkpoints/checkpoint-00000004.safetensors"));
    EXPECT_EQ(statuses_[kFailing].code(), absl::StatusCode::kInternal) << statuses_[kFailing];
  }

 private:
  void CountEnd() {
    const std::lock_guard lock(ends_mu_);
    ++num_ended_;
    ended_.notify_all();
  }
  bool AwaitOthers() {
    std::unique_lock lock(ends_mu_);
    return ended_.wait_for(lock, std::chrono::seconds(60),
                           [this] { return num_ended_ == kRanks - 1; });
  }

  std::mutex ends_mu_;
  std::condition_variable ended_;
  int num_ended_ = 0;
  bool others_ended_ = false;
};

// It does not save, low as its number is.
TEST_F(SlowEndTest, AFailureInAStepIsToldAndAnotherRankSaves) {
  RunWithAFailure(
      [this] { hooks_[kFailing].step = [] { throw std::runtime_error("an error of its own"); }; });
  for (const int rank : {1, 2}) {
    const auto lost = collectives::PeerLostOf(statuses_[rank]);
    ASSERT_TRUE(lost.has_value()) << statuses_[rank];
    EXPECT_EQ(lost->rank, kFailing) << statuses_[rank];
  }
}

// No Abort waits for that.
TEST_F(SlowEndTest, AFailureBetweenStepsIsToldBefore) {
  RunWithAFailure([] { throw std::runtime_error("an error of its own"); });
  for (const int rank : {1, 2}) {
    EXPECT_EQ(statuses_[rank].code(), absl::StatusCode::kCancelled) << statuses_[rank];
  }
}

// What its progress says from the second look at it on.
class LosesAPeer final : public collectives::Progress {
 public:
  void Enter(int64_t, int, collectives::Phase) override {}
  absl::Status Health() const override {
    if (looks_++ == 0) return absl::OkStatus();
    return collectives::PeerLostError({.rank = 1}, "its process has ended");
  }

 private:
  mutable int looks_ = 0;
};

TEST_F(TrainTest, ALongEvaluationEndsWhenAPeerIsLost) {
  TrainOptions options;
  options.job_path = folder_ / "job.pbtxt";
  options.variables = {{"DATA", folder_}};
  options.threads = 1;
  const auto single = collectives::MakeSingle();
  const auto guard = Guard::Make(options, *single);
  ASSERT_TRUE(guard.ok()) << guard.status();
  const auto session = OpenSession(options, *single, (*guard)->progress(), TrainParts());
  ASSERT_TRUE(session.ok()) << session.status();
  LosesAPeer progress;
  const auto evaluation = Evaluate(EvaluationPartsOf(**session), *single, progress, 0);
  EXPECT_TRUE(collectives::PeerLostOf(evaluation.status()).has_value()) << evaluation.status();
}

class StartTest : public TrainTest, public testing::WithParamInterface<const char*> {
 protected:
  absl::Status RunRanks(const RankBody& body) {
    const bool over_tcp = std::string_view(GetParam()) == "tcp";
    return over_tcp ? collectives::RunTcpRanks(2, body) : collectives::RunRanks(2, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, StartTest, testing::Values("threads", "tcp"),
                         [](const auto& backend) { return backend.param; });

// It has come to the rendezvous, and then it is stopped, say.
TEST_P(StartTest, ARankThatDoesNotComeToTheWatchdogsIsNamed) {
  std::latch ended(1);
  absl::Status said;
  (void)RunRanks([&](collectives::Communicator& communicator) {
    if (communicator.rank() == 1) {
      ended.wait();
      return absl::OkStatus();
    }
    TrainOptions options;
    options.start_timeout = std::chrono::milliseconds(200);
    said = Train(options, communicator).status();
    ended.count_down();
    return said;
  });
  EXPECT_MESSAGE(said, absl::StatusCode::kDeadlineExceeded, GetParam());
}

// From then on ranks may take the time that the communicator gives them.
TEST_P(StartTest, TheLimitOfTheStartEndsWithIt) {
  const absl::Status status = RunRanks([](collectives::Communicator& communicator) -> absl::Status {
    for (const std::chrono::nanoseconds own : {std::chrono::minutes(0), std::chrono::minutes(7)}) {
      communicator.set_timeout(own);
      MILLRACE_ASSIGN_OR_RETURN(const auto guard, Guard::Make(TrainOptions(), communicator));
      EXPECT_EQ(communicator.timeout(), own);
      MILLRACE_RETURN_IF_ERROR(communicator.Barrier());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Ranks that are done leave one after the other.
TEST_F(TrainTest, WhoHasEndedWellIsNotBlamedForAWait) {
  std::latch left(2);
  const absl::Status status =
      collectives::RunRanks(kRanks, [&](collectives::Communicator& communicator) -> absl::Status {
        MILLRACE_ASSIGN_OR_RETURN(auto guard, Guard::Make(TrainOptions(), communicator));
        if (communicator.rank() == 0) MILLRACE_RETURN_IF_ERROR(guard->EndWell());
        if (communicator.rank() < 2) {
          guard.reset();
          left.arrive_and_wait();
          return absl::OkStatus();
        }
        left.wait();
        const auto lost = collectives::PeerLostOf(guard->Explain(absl::UnavailableError("broken")));
        EXPECT_EQ(lost.value_or(collectives::PeerLost{.rank = -1}).rank, 1);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// It stays in the group, so that there is no broken connection either.
TEST_F(TrainTest, WhoHasLeftWithoutAWordEndsTheWaitOfTheOthers) {
  std::latch waited(2);
  const absl::Status status =
      collectives::RunRanks(2, [&](collectives::Communicator& communicator) -> absl::Status {
        const GuardLimits limits{.leave = std::chrono::milliseconds(100)};
        MILLRACE_ASSIGN_OR_RETURN(auto guard, Guard::Make(TrainOptions(), communicator, limits));
        if (communicator.rank() == 1) {
          guard->progress().Enter(7, -1, collectives::Phase::kBackward);
          guard.reset();
          waited.arrive_and_wait();
          return absl::OkStatus();
        }
        const absl::Status said = communicator.Barrier();
        EXPECT_MESSAGE(said, absl::StatusCode::kUnavailable);
        const auto lost = collectives::PeerLostOf(said).value_or(collectives::PeerLost());
        EXPECT_EQ(std::pair(lost.rank, lost.step), std::pair(1, int64_t{7}));
        waited.arrive_and_wait();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// Ranks 1 and 3 of a job train without the others.
TEST_F(TrainTest, ABrokenConnectionNamesARankOfTheJob) {
  std::latch seen(2);
  const absl::Status status =
      collectives::RunTcpRanks(4, [&](collectives::Communicator& job) -> absl::Status {
        MILLRACE_ASSIGN_OR_RETURN(auto half, job.Split(job.rank() % 2, job.rank()));
        if (job.rank() % 2 == 0) return job.Barrier();
        MILLRACE_ASSIGN_OR_RETURN(auto guard, Guard::Make(TrainOptions(), *half));
        if (half->rank() == 0) {
          const auto explain = [&guard](int rank) {
            absl::Status broken = absl::UnavailableError("reset");
            collectives::AddPeerLost(broken, {.rank = rank});
            return guard->Explain(broken);
          };
          EXPECT_EQ(collectives::PeerLostOf(explain(3)).value_or(collectives::PeerLost()).rank, 1);
          EXPECT_EQ(std::string(explain(2).message()), "reset") << "which is nobody's here";
        }
        seen.arrive_and_wait();
        guard.reset();
        return job.Barrier();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// What a rank has from a broken connection, itself or by way of others, has no place; the watchdog
// has one.
TEST_F(TrainTest, ALossWithoutAPlaceGetsTheOneThatWasSeenLast) {
  std::latch seen(2);
  const absl::Status status =
      collectives::RunRanks(2, [&](collectives::Communicator& communicator) -> absl::Status {
        MILLRACE_ASSIGN_OR_RETURN(auto guard, Guard::Make(TrainOptions(), communicator));
        if (communicator.rank() == 1) {
          guard->progress().Enter(7, -1, collectives::Phase::kBackward);
          guard->progress().Enter(7, 3, collectives::Phase::kWaiting);
          MILLRACE_RETURN_IF_ERROR(communicator.Barrier());
          seen.arrive_and_wait();
          return absl::OkStatus();
        }
        MILLRACE_RETURN_IF_ERROR(communicator.Barrier());
        absl::Status broken = absl::UnavailableError("message with rank 1: reset");
        collectives::AddPeerLost(broken, {.rank = 1});
        const absl::Status said = guard->Explain(broken);
        EXPECT_MESSAGE(said, absl::StatusCode::kUnavailable);
        EXPECT_EQ(collectives::PeerLostOf(said).value_or(collectives::PeerLost()).rank, 1);
        seen.arrive_and_wait();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::trainer
