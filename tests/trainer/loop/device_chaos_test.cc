// Trainings on devices over NCCL while ranks are late, calls fail and ranks are lost, on a fake of
// both. Being late changes no bit. Of a rank that is lost, in whatever place of a step, all others
// hear; what is saved then is a whole step, from which the training goes on as if nothing had been.
// Places and delays are drawn by seeds, which a failure names.

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "collectives/peer_lost.h"
#include "tests/trainer/loop/over_fake_nccl.h"

namespace millrace::trainer {
namespace {

using collectives::nccl::Result;
using ::testing::HasSubstr;

constexpr auto kHangGuard = std::chrono::minutes(2);
constexpr char kPlain[] = "digest_every: 1";

// Of each operation one rank is late: the others have begun it on their streams before its thread
// calls it, or before it begins it on its own. So no rank waits for itself.
class LateRanks {
 public:
  // `slow`: the rank that is late every time; -1: drawn for each.
  LateRanks(int world, int slow, unsigned seed)
      : world_(world), slow_(slow), seed_(seed), begun_(static_cast<size_t>(world)) {}

  void Call(int rank, int operation) {
    if (IsLate(rank, operation, /*calls=*/true)) AwaitOthers(rank, operation);
  }
  void Begin(int rank, int operation) {
    if (IsLate(rank, operation, /*calls=*/false)) AwaitOthers(rank, operation);
    const MutexLock lock(mu_);
    begun_[static_cast<size_t>(rank)].insert(operation);
    changed_.NotifyAll();
  }

 private:
  bool IsLate(int rank, int operation, bool calls) const {
    std::mt19937 random(seed_ * 100'003 + static_cast<unsigned>(operation));
    const int drawn = static_cast<int>(random() % static_cast<unsigned>(world_));
    return rank == (slow_ >= 0 ? slow_ : drawn) && (random() % 2 == 0) == calls;
  }
  void AwaitOthers(int rank, int operation) {
    const MutexLock lock(mu_);
    while (!HaveOthersBegun(rank, operation)) changed_.Wait(mu_);
  }
  bool HaveOthersBegun(int rank, int operation) MILLRACE_REQUIRES(mu_) {
    for (size_t other = 0; other < begun_.size(); ++other) {
      if (static_cast<int>(other) != rank && !begun_[other].contains(operation)) return false;
    }
    return true;
  }

  const int world_;
  const int slow_;
  const unsigned seed_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::set<int>> begun_ MILLRACE_GUARDED_BY(mu_);  // by rank: operations
};

class LateTest : public FakeNcclTrainTest {
 protected:
  Tensors Train(int world, const std::string& reduction) {
    RemoveCheckpoints();
    WriteJobOf(reduction, 3);
    const auto outcome = RunOverNccl(world);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? Checkpoints().rbegin()->second : Tensors();
  }
  Tensors TrainWithLateRanks(int world, const std::string& reduction, int slow, unsigned seed) {
    LateRanks late(world, slow, seed);
    control_.polls = std::vector{0, 2, 7}[seed % 3];
    control_.connects_by_calls = seed % 2 == 0;
    control_.on_call = [&late](int rank, int operation) {
      late.Call(rank, operation);
      return Result::kSuccess;
    };
    control_.on_begin = [&late](int rank, int operation) {
      late.Begin(rank, operation);
      return Result::kSuccess;
    };
    Tensors tensors = Train(world, reduction);
    control_.on_call = control_.on_begin = nullptr;
    return tensors;
  }
};

TEST_F(LateTest, RanksThatAreLateChangeNoBit) {
  const std::string kinds[] = {kPlain, "digest_every: 1 exact: true",
                               "digest_every: 1 shard_optimizer: true wire_dtype: \"float16\"",
                               "digest_every: 1 stale_steps: 2",
                               "digest_every: 1 accumulate_steps: 2 clip_norm: 0.5"};
  for (const std::string& kind : kinds) {
    for (const int world : {2, 3}) {
      const Tensors expected = Train(world, kind);
      for (const unsigned seed : {1u, 2u}) {
        SCOPED_TRACE(absl::StrCat(world, " ranks, seed ", seed, ", ", kind));
        EXPECT_EQ(TrainWithLateRanks(world, kind, /*slow=*/-1, seed), expected);
      }
      const int slow = world - 1;
      SCOPED_TRACE(absl::StrCat("rank ", slow, " of ", world, " is slow, ", kind));
      EXPECT_EQ(TrainWithLateRanks(world, kind, slow, /*seed=*/3), expected);
    }
  }
}

// The ranks' own group reaches the memory of this device, too.
TEST_F(LateTest, ExactSumsHaveTheBitsOfAnotherGroup) {
  for (const int world : {2, 3}) {
    over_nccl_ = false;
    const Tensors expected = Train(world, "exact: true");
    over_nccl_ = true;
    EXPECT_EQ(TrainWithLateRanks(world, "exact: true", /*slow=*/-1, /*seed=*/4), expected);
  }
}

enum class Fault {
  kFails,       // the call is an error
  kFailsLater,  // the call is taken, and fails on the stream
  kDies,        // the rank is unwound without a word
  kStops,       // the call does not return before the others have ended
  kHangs,       // the device does nothing behind the call until then; the host goes on
};
constexpr const char* kFaultNames[] = {"fails", "fails later", "dies", "stops", "hangs"};

constexpr size_t kNoCall = std::numeric_limits<size_t>::max();

// Not a std::exception: nothing makes an error of it.
struct Died {};

struct Turn {
  Fault fault = Fault::kFails;
  int world = 2;
  int rank = 0;
  // Of those that the rank makes into its device and NCCL; kFailsLater: of NCCL's alone.
  size_t call = 0;
  std::string place = "";  // for people

  std::string ToString() const {
    return absl::StrCat("rank ", rank, " of ", world, " ", kFaultNames[static_cast<int>(fault)],
                        " at call ", call, ", ", place);
  }
};

class LossTest : public FakeNcclTrainTest {
 protected:
  LossTest() {
    adjust_ = [](TrainOptions& options, const collectives::Communicator&) {
      options.stall_abort = std::chrono::seconds(2);
    };
    change_more_ = [this](TrainParts& parts, int rank) {
      parts.limits.verdict = parts.limits.leave = std::chrono::milliseconds(100);
      if (change_write_) change_write_(parts, rank);
    };
    run_ranks_ = [this](int world, const RankBody& body) {
      return collectives::RunRanks(world, [&](collectives::Communicator& communicator) {
        const absl::Status status = RunRank(communicator, body);
        const MutexLock lock(ends_mu_);
        ++num_ended_;
        ended_.NotifyAll();
        return status;
      });
    };
  }

  // Trains without a fault: the checkpoints of all steps, and the ranks' calls.
  void TrainInPeace(int world, const std::string& reduction) {
    expected_.clear();
    for (const bool stops : {true, false}) {
      RemoveCheckpoints();
      WriteJobOf(reduction, 1);
      const auto outcome = RunOverNccl(world, /*resume=*/false, stops ? 0 : -1);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      expected_.merge(Checkpoints());
    }
    ASSERT_EQ(expected_.size(), static_cast<size_t>(1 + kStepsPerEpoch));
    RemoveCheckpoints();
    WriteJobOf(reduction, 3);
    ASSERT_TRUE(RunOverNccl(world).ok());
    peaceful_ = calls_;
  }

  void RunTurn(const Turn& turn, bool peers_notice) {
    SCOPED_TRACE(absl::StrCat(turn.ToString(), peers_notice ? "" : ", unnoticed by NCCL"));
    RemoveCheckpoints();
    control_.peers_notice = peers_notice;
    turn_ = turn;
    hangs_ = false;
    {
      const MutexLock lock(ends_mu_);
      num_ended_ = 0;
    }
    if (turn.fault == Fault::kFailsLater) control_.on_begin = FailLater(turn);
    EXPECT_FALSE(RunOverNccl(turn.world).ok());
    control_.on_begin = nullptr;
    EXPECT_EQ(hangs_, turn.fault == Fault::kHangs);
    turn_.reset();
    for (int rank = 0; rank < turn.world; ++rank) {
      const bool hears = rank != turn.rank || turn.fault == Fault::kHangs;
      if (hears) ExpectNamed(turn, statuses_[static_cast<size_t>(rank)]);
    }
    ExpectWholeSteps();
    ExpectToGoOn(turn.world);
  }

  static std::function<Result(int, int)> FailLater(const Turn& turn) {
    return [turn](int rank, int operation) {
      const bool now = rank == turn.rank && static_cast<size_t>(operation) == turn.call;
      return now ? Result::kSystemError : Result::kSuccess;
    };
  }

  // Each file has the bits of its step, and the temporary ones are not taken for any.
  void ExpectWholeSteps() {
    for (const auto& [name, tensors] : Checkpoints()) {
      ASSERT_TRUE(expected_.contains(name)) << name;
      EXPECT_EQ(tensors, expected_[name]) << name;
    }
  }
  void ExpectToGoOn(int world) {
    const bool resumes = !Checkpoints().empty();
    const auto outcome = RunOverNccl(world, resumes);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(Checkpoints().rbegin()->first, expected_.rbegin()->first);
    ExpectWholeSteps();
  }

  // By its number, or in an error that all ranks have of it.
  static void ExpectNamed(const Turn& turn, const absl::Status& status) {
    ASSERT_FALSE(status.ok());
    const auto lost = collectives::PeerLostOf(status);
    if (lost.has_value()) {
      EXPECT_EQ(lost->rank, turn.rank) << status;
    } else {
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("rank ", turn.rank)));
    }
  }

  absl::Status On(int rank, size_t call) override {
    if (!turn_.has_value() || rank != turn_->rank || call != turn_->call) return absl::OkStatus();
    if (turn_->fault == Fault::kDies) throw Died();
    if (turn_->fault == Fault::kFails) return absl::InternalError("it has fallen off the bus");
    if (turn_->fault == Fault::kStops) AwaitOthers();
    hangs_ = turn_->fault == Fault::kHangs;
    return absl::OkStatus();
  }
  Hang HangOf(int rank) override {
    if (!turn_.has_value() || rank != turn_->rank || !hangs_) return {};
    return [this] { AwaitOthers(); };
  }
  void AwaitOthers() {
    const MutexLock lock(ends_mu_);
    const auto end = std::chrono::steady_clock::now() + kHangGuard;
    while (num_ended_ < turn_->world - 1 && std::chrono::steady_clock::now() < end) {
      ended_.WaitFor(ends_mu_, kHangGuard);
    }
    EXPECT_EQ(num_ended_, turn_->world - 1);
  }

  // The calls of NCCL in each step: as many as those that connect, before the first one.
  size_t CallOfNccl(int rank, size_t number) const {
    const std::vector<std::string>& calls = peaceful_[static_cast<size_t>(rank)];
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i] == kCall && number-- == 0) return i;
    }
    ADD_FAILURE() << "no such call";
    return 0;
  }
  size_t CallsPerStep() const {
    const auto calls = static_cast<size_t>(std::ranges::count(peaceful_[0], kCall));
    EXPECT_EQ(calls % (1 + kStepsPerEpoch), 0u);
    return calls / (1 + kStepsPerEpoch);
  }
  // The first call `name` of the rank from `begin` on.
  size_t Find(int rank, size_t begin, const std::string& name) const {
    const std::vector<std::string>& calls = peaceful_[static_cast<size_t>(rank)];
    return static_cast<size_t>(
        std::find(calls.begin() + static_cast<ptrdiff_t>(begin), calls.end(), name) -
        calls.begin());
  }
  // Places of the step behind `done` ones.
  std::vector<Turn> PlacesOf(Fault fault, int world, int rank, size_t done) const {
    const size_t each = CallsPerStep();
    const size_t before = CallOfNccl(rank, each * (1 + done) - 1) + 1;
    const size_t amid = CallOfNccl(rank, each * (1 + done) + each / 2);
    const size_t last = CallOfNccl(rank, each * (2 + done) - 1) + 1;
    return {{fault, world, rank, Find(rank, before, "Launch"), "before the backward pass"},
            {fault, world, rank, amid, "amid the buckets"},
            {fault, world, rank, Find(rank, last, "Record"), "before the update"}};
  }

  std::function<void(TrainParts& parts, int rank)> change_write_;
  std::optional<Turn> turn_;                        // changes between runs
  bool hangs_ = false;                              // of the turn's rank; its thread's
  std::map<std::string, Tensors> expected_;         // as Checkpoints, of every step
  std::vector<std::vector<std::string>> peaceful_;  // as calls_, of the training in peace

 private:
  absl::Status RunRank(collectives::Communicator& communicator, const RankBody& body) {
    try {
      return body(communicator);
    } catch (const Died&) {
      return absl::OkStatus();  // an error would tell the others
    }
  }

  Mutex ends_mu_;
  CondVar ended_;
  int num_ended_ MILLRACE_GUARDED_BY(ends_mu_) = 0;
};

TEST_F(LossTest, ARankThatIsLostInAnyPlaceOfAStepIsNamedAndAWholeStepIsSaved) {
  for (const int world : {2, 3}) {
    TrainInPeace(world, kPlain);
    for (const Fault fault : {Fault::kFails, Fault::kDies, Fault::kStops}) {
      for (const Turn& turn : PlacesOf(fault, world, /*rank=*/world - 2, /*done=*/3)) {
        RunTurn(turn, /*peers_notice=*/world == 2);
      }
    }
  }
}

TEST_F(LossTest, AnOperationThatFailsOnItsStreamIsNamedAndAWholeStepIsSaved) {
  for (const int world : {2, 3}) {
    TrainInPeace(world, kPlain);
    const size_t each = CallsPerStep();
    for (const size_t call : {0 * each, each / 2, each - 1}) {
      RunTurn({Fault::kFailsLater, world, /*rank=*/1, each * 4 + call, "of the fourth step"},
              /*peers_notice=*/world == 3);
    }
  }
}

// No call fails, and no host stands still. The rank hears from the others that it is given up.
TEST_F(LossTest, ADeviceThatHangsIsNamedByAllRanks) {
  for (const int world : {2, 3}) {
    TrainInPeace(world, kPlain);
    for (const Turn& turn : PlacesOf(Fault::kHangs, world, /*rank=*/world - 1, /*done=*/3)) {
      RunTurn(turn, /*peers_notice=*/world == 2);
    }
  }
}

// The others take the writer's place. It writes its file when they have ended.
TEST_F(LossTest, ARankThatStopsAmidACheckpointIsNamedAndAnotherOneSaves) {
  bool has_stopped = false;
  change_write_ = [&](TrainParts& parts, int rank) {
    if (rank != 0) return;
    parts.write_checkpoint = [&](int fd, const void* data, size_t size) -> ssize_t {
      if (turn_.has_value() && !std::exchange(has_stopped, true)) AwaitOthers();
      return write(fd, data, size);
    };
  };
  for (const int world : {2, 3}) {
    TrainInPeace(world, kPlain);
    has_stopped = false;
    RunTurn({Fault::kStops, world, /*rank=*/0, kNoCall, "amid a checkpoint"},
            /*peers_notice=*/false);
    EXPECT_TRUE(has_stopped);
  }
}

// Also in evaluations and as weights are read for a checkpoint.
TEST_F(LossTest, ARankThatIsLostAtAnyCallIsNamedAndAWholeStepIsSaved) {
  for (const unsigned seed : {1u, 2u}) {
    std::mt19937 random(seed);
    for (const int world : {2, 3}) {
      TrainInPeace(world, seed % 2 == 0 ? kPlain : "shard_optimizer: true");
      for (int i = 0; i < 4; ++i) {
        const int rank = static_cast<int>(random() % static_cast<unsigned>(world));
        const size_t begin = Find(rank, 0, "Product");  // of the first step
        const size_t count = peaceful_[static_cast<size_t>(rank)].size() - begin;
        const size_t call = begin + random() % count;
        const Fault fault = random() % 2 == 0 ? Fault::kFails : Fault::kDies;
        // A thread that is unwound between gradients tells its end to the watchdogs alone: of NCCL
        // the others hear that there was one, not whose.
        RunTurn({fault, world, rank, call, absl::StrCat("drawn by seed ", seed)},
                /*peers_notice=*/fault == Fault::kFails && random() % 2 == 0);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::trainer
