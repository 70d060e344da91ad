// Whom the reducer waits for, and for how long.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "gmock/gmock.h"
#include "tests/collectives/reducer_steps.h"
#include "tests/collectives/tcp_ranks.h"

namespace millrace::collectives {
namespace {

TEST(GradientReducer, MarkingDoesNotWaitForASlowPeer) {
  std::atomic<bool> marked = false;
  RunOn({0, 0}, [&marked](Communicator& comm, int host) -> absl::Status {
    ReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kInline;
    options.host = host;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, SomeGradients(), options));
    // Rank 1 marks nothing before rank 0 has marked everything.
    while (comm.rank() == 1 && !marked) std::this_thread::yield();
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    if (comm.rank() == 0) marked = true;
    return reducer->Finish();
  });
}

// Tells that the engine waits for the second bucket: the first one is reduced.
class SecondBucketWatch : public Progress {
 public:
  void Enter(int64_t, int bucket, Phase phase) override {
    if (bucket == 1 && phase == Phase::kBackward) reached = true;
  }
  absl::Status Health() const override { return absl::OkStatus(); }
  std::atomic<bool> reached = false;
};

TEST(GradientReducer, AThreadReducesWhileTheCallerComputes) {
  RunOn({0, 0}, [](Communicator& comm, int host) -> absl::Status {
    SecondBucketWatch watch;
    ReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kThread;
    options.host = host;
    options.progress = &watch;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, SomeGradients(), options));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));  // all of the first bucket
    while (!watch.reached) std::this_thread::yield();
    for (size_t g = 1; g < SomeGradients().size(); ++g) {
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    return reducer->Finish();
  });
}

// A rank that returns from the step destroys its reducer; the others must not wait for ever, and the
// job's error is that rank's.
TEST(GradientReducer, ARankThatLeavesEndsTheOthersWaits) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    const absl::Status status = RunRanks(3, [policy](Communicator& comm) -> absl::Status {
      ReducerOptions options;
      options.policy = policy;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                GradientReducer::Make(comm, {{"g", {10}}}, options));
      if (comm.rank() == 2) return absl::DataLossError("a bad record");
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
      const absl::Status finished = reducer->Finish();
      if (!absl::IsUnavailable(finished)) return Fail(finished.ToString());
      if (reducer->MarkReady(0) != finished) return Fail("a later call fails otherwise");
      return finished;
    });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

TEST(GradientReducer, TheTimeoutNamesTheRankThatIsAwaited) {
  std::atomic<bool> seen = false;
  const absl::Status status = RunRanks(2, [&seen](Communicator& comm) -> absl::Status {
    // For Make too, in which a loaded machine may let a rank wait for a core.
    comm.set_timeout(std::chrono::milliseconds(1000));
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, {{"g", {10}}}));
    if (comm.rank() == 1) {
      while (!seen) std::this_thread::yield();
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    const absl::Status finished = reducer->Finish();
    seen = true;
    if (!absl::IsDeadlineExceeded(finished)) return Fail(finished.ToString());
    return ToStd(finished.message()).find("bucket 0: waiting for rank 1") != std::string_view::npos
               ? absl::OkStatus()
               : Fail(finished.ToString());
  });
  EXPECT_TRUE(status.ok()) << status;
}

class Recorder : public Progress {
 public:
  void Enter(int64_t step, int bucket, Phase phase) override {
    entered.push_back(absl::StrCat(step, " ", bucket, " ", static_cast<uint32_t>(phase)));
  }
  absl::Status Health() const override {
    return lost ? absl::UnavailableError("rank 1 was killed") : absl::OkStatus();
  }
  std::vector<std::string> entered;
  std::atomic<bool> lost = false;
};

TEST(GradientReducer, WaitsAskWhetherPeersLive) {
  std::atomic<bool> seen = false;
  const absl::Status status = RunRanks(2, [&seen](Communicator& comm) -> absl::Status {
    Recorder recorder;
    ReducerOptions options;
    options.policy = ProgressPolicy::kInline;
    options.progress = &recorder;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, {{"g", {10}}}, options));
    if (comm.rank() == 1) {
      while (!seen) std::this_thread::yield();
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    std::thread killer([&recorder] { recorder.lost = true; });
    const absl::Status finished = reducer->Finish();
    killer.join();
    seen = true;
    if (ToStd(finished.message()).find("rank 1 was killed") == std::string_view::npos) {
      return Fail(finished.ToString());
    }
    const std::string waiting = absl::StrCat("0 0 ", static_cast<uint32_t>(Phase::kWaiting));
    return recorder.entered.back() == waiting ? absl::OkStatus() : Fail(recorder.entered.back());
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(GradientReducer, SaysInWhichStepBucketAndPhaseItIs) {
  RunOn({0, 1, 0, 1}, [](Communicator& comm, int host) -> absl::Status {
    Recorder recorder;
    ReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kInline;
    options.host = host;
    options.progress = &recorder;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, SomeGradients(), options));
    const std::vector<size_t> order = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int step = 0; step < 2; ++step) {
      MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, step));
    }
    const std::string last = absl::StrCat("1 ", reducer->num_buckets() - 1, " ");
    const auto entered = [&](Phase phase) {
      return std::ranges::count(recorder.entered, absl::StrCat(last, static_cast<uint32_t>(phase)));
    };
    if (entered(Phase::kReducing) != 1) return Fail("reducing");
    return comm.Barrier();
  });
}

// Tells that the rank waits although it has summed its share.
class WaitingWatch : public Progress {
 public:
  void Enter(int64_t step, int bucket, Phase phase) override {
    if (step != 0 || bucket != 0) return;
    if (phase == Phase::kReducing) has_reduced = true;
    if (phase == Phase::kWaiting && has_reduced) waits = true;
  }
  absl::Status Health() const override { return absl::OkStatus(); }
  std::atomic<bool> has_reduced = false;
  std::atomic<bool> waits = false;
};

// Rank 1 has filled its bucket but not summed its share of it; rank 0 has.
TEST(GradientReducer, SaysThatItWaitsForTheSharesOfOthers) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    std::atomic<bool> marked = false;
    WaitingWatch watch;
    RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
      ReducerOptions options;
      options.host = host;
      options.policy = comm.rank() == 0 ? policy : ProgressPolicy::kInline;
      if (comm.rank() == 0) options.progress = &watch;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                GradientReducer::Make(comm, {{"g", {10}}}, options));
      while (comm.rank() == 0 && !marked) std::this_thread::yield();
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
      marked = true;
      while (comm.rank() == 1 && !watch.waits) std::this_thread::yield();
      return reducer->Finish();
    });
  }
}

// Ranks 0 and 1 mark everything before rank 2 marks anything, so nothing is reduced yet; then each waits
// for another of the two reducers first.
absl::Status FinishTwoInUnlikeOrders(Communicator& comm, int host, ReducerTeam* team,
                                     ProgressPolicy first = ProgressPolicy::kInline) {
  ReducerOptions options = SmallBuckets();
  options.policy = first;
  options.host = host;
  options.team = team;
  MILLRACE_ASSIGN_OR_RETURN(const auto one, GradientReducer::Make(comm, SomeGradients(), options));
  options.policy = ProgressPolicy::kInline;
  MILLRACE_ASSIGN_OR_RETURN(const auto two, GradientReducer::Make(comm, SomeGradients(), options));
  const auto mark = [](GradientReducer& reducer) -> absl::Status {
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
    }
    return absl::OkStatus();
  };
  const bool last = comm.rank() + 1 == comm.size();
  for (int step = 0; step < 5; ++step) {
    if (last) MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    MILLRACE_RETURN_IF_ERROR(mark(*one));
    MILLRACE_RETURN_IF_ERROR(mark(*two));
    if (!last) MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    MILLRACE_RETURN_IF_ERROR(comm.rank() == 1 ? two->Finish() : one->Finish());
    MILLRACE_RETURN_IF_ERROR(comm.rank() == 1 ? one->Finish() : two->Finish());
  }
  return comm.Barrier();
}

TEST(ReducerTeam, MayBeFinishedInUnlikeOrders) {
  RunOn({0, 0, 0}, [](Communicator& comm, int host) {
    ReducerTeam team;
    return FinishTwoInUnlikeOrders(comm, host, &team);
  });
}

TEST(ReducerTeam, IsWhatMakesUnlikeOrdersPossible) {
  const absl::Status status = RunRanks(3, [](Communicator& comm) {
    comm.set_timeout(std::chrono::milliseconds(1000));
    return FinishTwoInUnlikeOrders(comm, 0, nullptr);
  });
  EXPECT_FALSE(status.ok());
}

TEST(ReducerTeam, AMemberWithAThreadGoesOnByItself) {
  RunOn({0, 0, 0}, [](Communicator& comm, int host) {
    ReducerTeam team;
    return FinishTwoInUnlikeOrders(comm, host, &team, ProgressPolicy::kThread);
  });
}

// The norm takes an exchange of its own at a step's end.
TEST(ReducerTeam, WorksBetweenHostsWithShardsAndTheNorm) {
  RunOn({0, 1}, [](Communicator& comm, int host) -> absl::Status {
    ReducerTeam team;
    ReducerOptions options;
    options.host = host;
    options.team = &team;
    options.shard = true;
    options.clip_norm = 1;
    MILLRACE_ASSIGN_OR_RETURN(const auto one,
                              GradientReducer::Make(comm, {{"a", {1000}}}, options));
    MILLRACE_ASSIGN_OR_RETURN(const auto two,
                              GradientReducer::Make(comm, {{"b", {1000}}}, options));
    for (int step = 0; step < 500; ++step) {
      std::ranges::fill(one->gradient(0).as<float>(), 1.0f);
      std::ranges::fill(two->gradient(0).as<float>(), 2.0f);
      MILLRACE_RETURN_IF_ERROR(one->MarkReady(0));
      MILLRACE_RETURN_IF_ERROR(two->MarkReady(0));
      MILLRACE_RETURN_IF_ERROR(comm.rank() == 1 ? two->Finish() : one->Finish());
      MILLRACE_RETURN_IF_ERROR(comm.rank() == 1 ? one->Finish() : two->Finish());
      if (one->outcome().norm != std::sqrt(4000.0)) return Fail("norm of the first");
      if (two->outcome().norm != std::sqrt(16000.0)) return Fail("norm of the second");
    }
    return comm.Barrier();
  });
}

// Each host's lane waits for the others' of another reducer.
TEST(ReducerTeam, WorksBetweenHosts) {
  RunOn({0, 1, 2}, [](Communicator& comm, int host) {
    ReducerTeam team;
    return FinishTwoInUnlikeOrders(comm, host, &team);
  });
}

// One reducer of a grid: over the row of a rank, or over its column.
struct GridAxis {
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<GradientReducer> reducer;
  std::vector<int> ranks;  // of the job

  double Value(int rank, size_t gradient, size_t i, int step) const {
    return GradientValue(rank, gradient, i, step + 3 * ranks[1]);
  }
  absl::Status Mark(int rank, const std::vector<size_t>& order, int step) const {
    for (const size_t g : order) {
      const std::span<float> gradient = reducer->gradient(g).as<float>();
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>(Value(rank, g, i, step));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    return absl::OkStatus();
  }
  absl::Status Check(int step) const {
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      const std::span<const float> gradient = reducer->gradient(g).as<float>();
      for (size_t i = 0; i < gradient.size(); ++i) {
        const double sum = Value(ranks[0], g, i, step) + Value(ranks[1], g, i, step);
        if (gradient[i] != sum) return Fail(absl::StrCat("gradient ", g, " in step ", step));
      }
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<GridAxis> MakeGridAxis(Communicator& job, std::vector<int> ranks, int host,
                                      ReducerTeam* team) {
  GridAxis axis;
  axis.ranks = std::move(ranks);
  MILLRACE_ASSIGN_OR_RETURN(axis.comm, job.Split(axis.ranks[0], job.rank()));
  // A wait that would be for ever.
  axis.comm->set_timeout(std::chrono::seconds(60));
  ReducerOptions options = SmallBuckets();
  options.policy = ProgressPolicy::kInline;
  options.host = host;
  options.team = team;
  MILLRACE_ASSIGN_OR_RETURN(axis.reducer,
                            GradientReducer::Make(*axis.comm, SomeGradients(), options));
  return axis;
}

// Ranks 0 1
//       2 3. Each waits for its neighbour in its row or its column first, which waits in the other
// reducer: 0 for 1, 1 for 3, 3 for 2, 2 for 0. Before that the ranks mark in an order of their own each.
absl::Status StepsOfAGrid(Communicator& job, int host, ReducerTeam* team) {
  const int rank = job.rank();
  const int top = rank % 2;
  const int left = rank - top;
  MILLRACE_ASSIGN_OR_RETURN(const GridAxis row, MakeGridAxis(job, {left, left + 1}, host, team));
  MILLRACE_ASSIGN_OR_RETURN(const GridAxis column, MakeGridAxis(job, {top, top + 2}, host, team));
  const bool row_first = rank == 0 || rank == 3;
  const GridAxis& first = row_first ? row : column;
  const GridAxis& second = row_first ? column : row;
  std::vector<size_t> order(SomeGradients().size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(rank + 1);
  for (int step = 0; step < 40; ++step) {
    MILLRACE_RETURN_IF_ERROR((step % 2 == 0 ? first : second).Mark(rank, order, step));
    MILLRACE_RETURN_IF_ERROR((step % 2 == 0 ? second : first).Mark(rank, order, step));
    MILLRACE_RETURN_IF_ERROR(first.reducer->Finish());
    MILLRACE_RETURN_IF_ERROR(second.reducer->Finish());
    MILLRACE_RETURN_IF_ERROR(row.Check(step));
    MILLRACE_RETURN_IF_ERROR(column.Check(step));
    std::shuffle(order.begin(), order.end(), random);
  }
  return job.Barrier();
}

TEST(ReducerTeam, FinishesTheRowsAndColumnsOfAGridInUnlikeOrders) {
  for (const bool tcp : {false, true}) {
    for (const bool one_host : {true, false}) {
      const RankBody body = [one_host](Communicator& job) {
        ReducerTeam team;
        return StepsOfAGrid(job, one_host ? 0 : job.rank(), &team);
      };
      const absl::Status status = tcp ? RunTcpRanks(4, body) : RunRanks(4, body);
      EXPECT_TRUE(status.ok()) << status << "; TCP " << tcp << ", one host " << one_host;
    }
  }
}

}  // namespace
}  // namespace millrace::collectives
