// Ranks that take no more part in the reductions while the others still wait for them. Each keeps
// its communicator until all others have an outcome, so that it is the reducer that tells them.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/peer_lost.h"
#include "collectives/progress.h"
#include "collectives/reducer/make_reducer.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/sanitized.h"

namespace millrace::collectives {
namespace {

const std::vector<GradientSpec> kThree = {{"a", {600}}, {"b", {600}}, {"c", {600}}};

PrivateReducerOptions BucketEach() {
  PrivateReducerOptions options;
  options.bucket_bytes = 600 * sizeof(float);
  options.edge_bucket_bytes = options.bucket_bytes;
  return options;
}

using Runner = std::function<absl::Status(int size, const RankBody& body)>;

struct Case {
  Layout layout;
  ProgressPolicy policy = ProgressPolicy::kInline;
  bool exact = false;
};

std::vector<Case> Cases(const std::vector<Layout>& layouts) {
  std::vector<Case> cases;
  for (const Layout& layout : layouts) {
    for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
      for (const bool exact : {false, true}) cases.push_back({layout, policy, exact});
    }
  }
  return cases;
}

absl::Status MarkAll(GradientReducer& reducer, size_t count) {
  for (size_t g = 0; g < count; ++g) MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  return absl::OkStatus();
}

// Steps until one fails: what a peer had sent before it left may be enough for the first one.
absl::Status StepUntilLost(GradientReducer& reducer) {
  absl::Status outcome;
  while (outcome.ok()) {
    outcome = MarkAll(reducer, kThree.size());
    if (outcome.ok()) outcome = reducer.Finish();
  }
  return outcome;
}

absl::StatusOr<std::unique_ptr<GradientReducer>> MakeFor(Communicator& comm, const Case& one) {
  PrivateReducerOptions options = BucketEach();
  options.host = one.layout[comm.rank()];
  options.policy = one.policy;
  options.exact = one.exact;
  return MakePlanned(comm, kThree, options);
}

absl::Status ExpectLost(const absl::Status& status, const PeerLost& expected) {
  const std::optional<PeerLost> lost = PeerLostOf(status);
  if (!absl::IsUnavailable(status) || !lost.has_value()) return Fail(status.ToString());
  const bool same = lost->rank == expected.rank && lost->step == expected.step &&
                    lost->bucket == expected.bucket && lost->phase == expected.phase;
  return same ? absl::OkStatus() : Fail(status.ToString());
}

// The steps before the last rank leaves. A rank that is still in one of them would hear of the
// leave there, and name that step.
class AllFinished {
 public:
  explicit AllFinished(int size) : size_(size) {}

  // Makes `steps` steps; returns to the last rank when all ranks have made theirs.
  absl::Status Step(Communicator& comm, GradientReducer& reducer, int steps) {
    for (int step = 0; step < steps; ++step) {
      MILLRACE_RETURN_IF_ERROR(MarkAll(reducer, kThree.size()));
      MILLRACE_RETURN_IF_ERROR(reducer.Finish());
    }
    ++finished_;
    if (comm.rank() != size_ - 1) return absl::OkStatus();
    return AwaitUntil([this] { return finished_ >= size_; });
  }

 private:
  const int size_;
  std::atomic<int> finished_ = 0;
};

// The last rank leaves after `steps` steps and `marked` gradients more; the others go on to the end
// of the next step.
absl::Status LastLeaves(const Runner& run, const Case& one, int steps, size_t marked,
                        const PeerLost& expected) {
  const int size = static_cast<int>(one.layout.size());
  AllFinished before(size);
  std::atomic<int> told = 0;
  return run(size, [&](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakeFor(comm, one));
    MILLRACE_RETURN_IF_ERROR(before.Step(comm, *reducer, steps));
    if (comm.rank() == size - 1) {
      MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, marked));
      reducer.reset();
      MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return told >= size - 1; }));
      return absl::OkStatus();
    }
    // Also a MarkReady may meet the failure.
    absl::Status outcome = MarkAll(*reducer, kThree.size());
    if (outcome.ok()) outcome = reducer->Finish();
    const absl::Status later = reducer->MarkReady(0);
    ++told;
    if (later != outcome) return Fail("a later call fails otherwise: " + later.ToString());
    return ExpectLost(outcome, expected);
  });
}

TEST(ReducerLeaving, InTheMiddleOfAStepAllOthersAreTold) {
  for (const Case& one : Cases({{0, 0}, {0, 1}, {0, 1, 2}, {0, 0, 1, 1}, {0, 1, 1, 0}})) {
    const int last = static_cast<int>(one.layout.size()) - 1;
    const absl::Status status =
        LastLeaves(RunRanks, one, /*steps=*/2, /*marked=*/1,
                   {.rank = last, .step = 2, .bucket = 1, .phase = Phase::kBackward});
    EXPECT_TRUE(status.ok()) << status << " " << last << " " << one.exact;
  }
}

TEST(ReducerLeaving, OverTcpTheHostsAreToldToo) {
  for (const Case& one : Cases({{0, 1}, {0, 0, 1, 1}, {0, 1, 2}})) {
    const int last = static_cast<int>(one.layout.size()) - 1;
    const absl::Status status =
        LastLeaves(RunTcpRanks, one, /*steps=*/1, /*marked=*/2,
                   {.rank = last, .step = 1, .bucket = 2, .phase = Phase::kBackward});
    EXPECT_TRUE(status.ok()) << status << " " << last << " " << one.exact;
  }
}

TEST(ReducerLeaving, BetweenMicroBatchesARankIsWithinItsStep) {
  const absl::Status status = RunRanks(2, [](Communicator& comm) -> absl::Status {
    PrivateReducerOptions options = BucketEach();
    options.micro_batches = 2;
    MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakePlanned(comm, kThree, options));
    MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, kThree.size()));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    if (comm.rank() == 1) {
      reducer.reset();
      return comm.Barrier();
    }
    const absl::Status outcome = StepUntilLost(*reducer);
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    return ExpectLost(outcome, {.rank = 1, .step = 0, .bucket = 0, .phase = Phase::kBackward});
  });
  EXPECT_TRUE(status.ok()) << status;
}

// The last rank leaves with `why` after a step and two gradients; the others shall hear `told` of
// it.
absl::Status LastLeavesBecause(const Runner& run, const Case& one, const absl::Status& why,
                               const absl::Status& told) {
  const int size = static_cast<int>(one.layout.size());
  AllFinished before(size);
  std::atomic<int> heard = 0;
  return run(size, [&](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakeFor(comm, one));
    MILLRACE_RETURN_IF_ERROR(before.Step(comm, *reducer, /*steps=*/1));
    if (comm.rank() == size - 1) {
      MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, 2));
      reducer->Leave(why);
      reducer->Leave(absl::InternalError("another reason"));
      const bool stays = reducer->MarkReady(2) == why && reducer->Finish() == why;
      MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return heard >= size - 1; }));
      return stays ? absl::OkStatus() : Fail("a later call does not fail with the cause");
    }
    const absl::Status outcome = StepUntilLost(*reducer);
    ++heard;
    if (!ToStd(outcome.message()).ends_with(ToStd(told.message()))) return Fail(outcome.ToString());
    return ExpectLost(outcome, *PeerLostOf(told));
  });
}

TEST(ReducerLeaving, TheOthersHearTheCause) {
  for (const Runner& run : {Runner(RunRanks), Runner(RunTcpRanks)}) {
    for (const Case& one : Cases({{0, 0}, {0, 1}, {0, 0, 1, 1}})) {
      const int last = static_cast<int>(one.layout.size()) - 1;
      const absl::Status status = LastLeavesBecause(
          run, one, absl::DataLossError("a broken disk"),
          PeerLostError({.rank = last, .step = 1, .bucket = 2, .phase = Phase::kBackward},
                        "it has failed: DATA_LOSS: a broken disk"));
      EXPECT_TRUE(status.ok()) << status << " " << last << " " << one.exact;
    }
  }
}

TEST(ReducerLeaving, ACauseThatNamesALostRankIsPassedOnAsItIs) {
  const absl::Status lost = PeerLostError({.rank = 7, .step = 5}, "its process has ended");
  for (const Runner& run : {Runner(RunRanks), Runner(RunTcpRanks)}) {
    for (const Case& one : Cases({{0, 0}, {0, 1}})) {
      const absl::Status status = LastLeavesBecause(run, one, lost, lost);
      EXPECT_TRUE(status.ok()) << status << " " << one.exact;
    }
  }
}

// It has made fewer steps than the others: the ranks have diverged.
TEST(ReducerLeaving, BetweenTwoStepsTheNextOneIsNotWaitedFor) {
  for (const Runner& run : {Runner(RunRanks), Runner(RunTcpRanks)}) {
    for (const Case& one : Cases({{0, 1}, {0, 0, 1}})) {
      const int last = static_cast<int>(one.layout.size()) - 1;
      const absl::Status status =
          LastLeaves(run, one, /*steps=*/2, /*marked=*/0,
                     {.rank = last, .step = 2, .bucket = -1, .phase = Phase::kUpdating});
      EXPECT_TRUE(status.ok()) << status << " " << last << " " << one.exact;
    }
  }
}

// Rank 0 has all of a step on its way, to peers that mark nothing before it is gone.
TEST(ReducerLeaving, WaitsForNoPeer) {
  for (const Runner& run : {Runner(RunRanks), Runner(RunTcpRanks)}) {
    for (const Case& one : Cases({{0, 1}, {0, 1, 2}, {0, 0}})) {
      std::atomic<bool> gone = false;
      const absl::Status status =
          run(static_cast<int>(one.layout.size()), [&](Communicator& comm) -> absl::Status {
            MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakeFor(comm, one));
            if (comm.rank() == 0) {
              MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, kThree.size()));
              reducer.reset();
              gone = true;
              return comm.Barrier();
            }
            MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return gone.load(); }));
            const absl::Status outcome = StepUntilLost(*reducer);
            const std::optional<PeerLost> lost = PeerLostOf(outcome);
            if (!lost.has_value() || lost->rank != 0) return Fail(outcome.ToString());
            reducer.reset();  // this rank's exchanges do not end either
            return comm.Barrier();
          });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// A rank that has ended the last step leaves at once, while others are still in it.
TEST(ReducerLeaving, AtTheEndDisturbsNobody) {
  for (const Runner& run : {Runner(RunRanks), Runner(RunTcpRanks)}) {
    for (const Case& one : Cases({{0, 0, 0}, {0, 1, 2}, {0, 0, 1, 1}})) {
      const absl::Status status =
          run(static_cast<int>(one.layout.size()), [&](Communicator& comm) -> absl::Status {
            const std::vector<size_t> order = {2, 0, 1};
            for (int turn = 0; turn < RacingRounds(20); ++turn) {
              PrivateReducerOptions options = BucketEach();
              options.host = one.layout[comm.rank()];
              options.policy = one.policy;
              options.exact = one.exact;
              MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, kThree, options));
              MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, turn));
              MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, turn + 1));
            }
            return comm.Barrier();
          });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

class BadHealth : public Progress {
 public:
  void Enter(int64_t, int, Phase) override {}
  absl::Status Health() const override { return absl::DataLossError("a broken disk"); }
};

// Nobody destroys anything. Rank 1 exchanges with rank 3, rank 2 shares memory with it; rank 0 has
// it from them.
TEST(ReducerLeaving, AFailureOfOneRankReachesThoseThatDoNotMeetIt) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    std::atomic<int> told = 0;
    const absl::Status status = RunTcpRanks(4, [&](Communicator& comm) -> absl::Status {
      BadHealth bad;
      PrivateReducerOptions options = BucketEach();
      options.host = comm.rank() / 2;
      options.policy = policy;
      if (comm.rank() == 3) options.progress = &bad;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, kThree, options));
      if (comm.rank() == 0) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return told > 0; }));
      const absl::Status outcome = StepUntilLost(*reducer);
      ++told;
      MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return told >= 4; }));
      if (comm.rank() == 3) return absl::IsDataLoss(outcome) ? absl::OkStatus() : Fail("own cause");
      const std::optional<PeerLost> lost = PeerLostOf(outcome);
      const bool named = lost.has_value() && lost->rank == 3 && absl::IsUnavailable(outcome) &&
                         ToStd(outcome.message()).find("a broken disk") != std::string_view::npos;
      return named ? absl::OkStatus() : Fail(outcome.ToString());
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Rank 0 exchanges with rank 2 and meets the end of its process; rank 1 has it from rank 0, who is
// not to blame. No watchdog says so.
TEST(ReducerLeaving, ADeadProcessIsNamedByARankThatHasItFromAnother) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
    const auto outcome_of = [&](int rank) {
      absl::Status outcome;
      const absl::Status status =
          RunTcpRank(address, rank, 3, [&](Communicator& comm) -> absl::Status {
            MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                      MakeFor(comm, {.layout = {0, 0, 1}, .policy = policy}));
            MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, kThree.size()));
            MILLRACE_RETURN_IF_ERROR(reducer->Finish());
            if (rank == 2) ::_exit(1);
            outcome = StepUntilLost(*reducer);
            return absl::OkStatus();
          });
      return status.ok() ? outcome : status;
    };
    std::vector<std::unique_ptr<Process>> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(std::make_unique<Process>([&outcome_of, rank] {
        const absl::Status outcome = outcome_of(rank);
        const std::optional<PeerLost> lost = PeerLostOf(outcome);
        return absl::StrCat("lost ", lost ? lost->rank : -1, ": ", outcome.ToString());
      }));
    }
    for (int rank = 0; rank < 2; ++rank) {
      const std::string said = ranks[rank]->Await();
      EXPECT_TRUE(said.starts_with("lost 2: UNAVAILABLE")) << rank << ": " << said;
    }
  }
}

// Counts the threads that have called it, but for the one that made it, and that still run. They
// dawdle at their ends, for whoever does not wait for them to see them.
class CallingThreads : public Progress {
 public:
  void Enter(int64_t, int, Phase) override {
    if (std::this_thread::get_id() == maker_) return;
    called_ = true;
    thread_local const Mark mark(running_);
  }
  absl::Status Health() const override { return absl::OkStatus(); }
  bool called() const { return called_; }
  int running() const { return *running_; }

 private:
  using Count = std::shared_ptr<std::atomic<int>>;
  struct Mark {
    explicit Mark(Count of) : count(std::move(of)) { ++*count; }
    ~Mark() {
      Dawdle();
      --*count;
    }
    const Count count;
  };

  const std::thread::id maker_ = std::this_thread::get_id();
  const Count running_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> called_ = false;
};

TEST(ReducerLeaving, AfterAFailureTheCommunicatorIsTheCallersAlone) {
  for (const Runner& run : {Runner(RunRanks), Runner(RunTcpRanks)}) {
    for (const Layout& layout : {Layout{0, 0}, Layout{0, 1}}) {
      std::atomic<bool> called = false;
      const absl::Status status = run(2, [&](Communicator& comm) -> absl::Status {
        CallingThreads threads;
        PrivateReducerOptions options = BucketEach();
        options.host = layout[comm.rank()];
        options.policy = ProgressPolicy::kThread;
        options.progress = &threads;
        MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakePlanned(comm, kThree, options));
        MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
        if (comm.rank() == 1) {
          MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return called.load(); }));
          reducer.reset();
          return comm.Barrier();
        }
        MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return threads.called(); }));
        called = true;
        absl::Status outcome = reducer->MarkReady(1);
        if (outcome.ok()) outcome = reducer->MarkReady(2);
        if (outcome.ok()) outcome = reducer->Finish();
        if (outcome.ok()) return Fail("without its peer");
        if (threads.running() != 0) return Fail("a thread of the reducer is still there");
        return comm.Barrier();
      });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

}  // namespace
}  // namespace millrace::collectives
