// Whom the reducer waits for, and for how long.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "collectives/reducer/make_reducer.h"
#include "gtest/gtest.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/leaping_clock.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {
namespace {

TEST(GradientReducer, MarkingDoesNotWaitForASlowPeer) {
  std::atomic<bool> marked = false;
  RunOn({0, 0}, [&marked](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kInline;
    options.host = host;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
    // Rank 1 marks nothing before rank 0 has marked everything.
    if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return marked.load(); }));
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    if (comm.rank() == 0) marked = true;
    return reducer->Finish();
  });
}

// One rank has marked everything and does not come to Finish before the other is through it.
TEST(GradientReducer, WhoComesLastWaitsForNobodyToWakeUp) {
  std::atomic<int> marked = 0;  // steps, by the rank that comes first
  std::atomic<int> finished = 0;
  RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
    comm.set_timeout(std::chrono::seconds(20));
    PrivateReducerOptions options;
    options.policy = ProgressPolicy::kInline;
    options.host = host;
    options.average_by_rows = true;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {1000}}}, options));
    for (int step = 0; step < 6; ++step) {
      const bool first = (step + comm.rank()) % 2 == 0;
      const std::span<float> gradient = reducer->gradient(0).as<float>();
      std::ranges::fill(gradient, static_cast<float>((comm.rank() + 1) * (step + 1)));
      reducer->SetRows(comm.rank() + 1);
      if (!first) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return marked > step; }));
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
      if (first) marked = step + 1;
      if (first) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return finished > step; }));
      const absl::Status status = reducer->Finish();
      if (!first) finished = step + 1;
      MILLRACE_RETURN_IF_ERROR(status);
      if (std::ranges::count(gradient, static_cast<float>(step + 1)) != 1000) return Fail("sums");
      if (reducer->outcome().rows != 3) return Fail("rows");
    }
    return absl::OkStatus();
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
    PrivateReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kThread;
    options.host = host;
    options.progress = &watch;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));  // all of the first bucket
    MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return watch.reached.load(); }));
    for (size_t g = 1; g < SomeGradients().size(); ++g) {
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    return reducer->Finish();
  });
}

using Place = std::tuple<int64_t, size_t, Phase>;  // step, bucket

// Thread-safe.
class Recorder : public Progress {
 public:
  void Enter(int64_t step, int bucket, Phase phase) override {
    MutexLock lock(mu_);
    entered_.push_back({step, static_cast<size_t>(bucket), phase});
  }
  absl::Status Health() const override {
    return lost ? absl::UnavailableError("rank 1 was killed") : absl::OkStatus();
  }
  Place last() const {
    MutexLock lock(mu_);
    return entered_.back();
  }
  // How often.
  int64_t Entered(const Place& place) const {
    MutexLock lock(mu_);
    return std::ranges::count(entered_, place);
  }
  // Waits for another thread's.
  absl::Status Await(const Place& place) const {
    return AwaitUntil([&] { return Entered(place) > 0; });
  }
  std::atomic<bool> lost = false;

 private:
  mutable Mutex mu_;
  std::vector<Place> entered_ MILLRACE_GUARDED_BY(mu_);
};

// The caller updates or reads then, and a watchdog must not take that for backward.
TEST(GradientReducer, AThreadDoesNotSayThatAStepBegins) {
  for (const auto& [layout, owned] : {std::pair(Layout{0, 0}, true), std::pair(Layout{0, 0}, false),
                                      std::pair(Layout{0, 1}, true)}) {
    RunOn(layout, [owned](Communicator& comm, int host) -> absl::Status {
      Recorder recorder;
      PrivateReducerOptions options = SmallBuckets();
      options.policy = ProgressPolicy::kThread;
      options.host = host;
      options.progress = &recorder;
      UserGradients memory(SomeGradients());
      MILLRACE_ASSIGN_OR_RETURN(
          auto reducer, owned ? MakePlanned(comm, SomeGradients(), options)
                              : MakePlanned(comm, SomeGradients(), memory.views(), options));
      MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, {0, 1, 2, 3, 4, 5, 6, 7}, 0));
      reducer.reset();  // its thread has said all then
      if (recorder.Entered({0, 0, Phase::kReducing}) == 0) return Fail("says nothing");
      if (recorder.Entered({1, 0, Phase::kBackward}) != 0) return Fail("says it");
      return comm.Barrier();
    });
  }
}

// Where the rank that came first has more to sum than its share of the last bucket, or that share
// is long.
TEST(GradientReducer, WhoComesLastWaitsForWhatIsNotItsToSum) {
  const std::vector<GradientSpec> one_long = {{"g", {600'000}}};
  for (const std::vector<GradientSpec>& gradients : {SomeGradients(), one_long}) {
    std::atomic<bool> marked = false;
    Recorder recorder;  // of rank 1, who comes last
    RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
      comm.set_timeout(std::chrono::seconds(100));
      PrivateReducerOptions options = SmallBuckets();
      options.policy = ProgressPolicy::kInline;
      options.host = host;
      if (comm.rank() == 1) options.progress = &recorder;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, gradients, options));
      if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return marked.load(); }));
      for (size_t g = 0; g < gradients.size(); ++g) {
        std::ranges::fill(reducer->gradient(g).as<float>(), static_cast<float>(comm.rank() + 1));
        MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
      }
      if (comm.rank() == 0) {
        marked = true;
        MILLRACE_RETURN_IF_ERROR(recorder.Await({0, reducer->num_buckets() - 1, Phase::kWaiting}));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->Finish());
      for (size_t g = 0; g < gradients.size(); ++g) {
        const auto is_sum = [](float value) { return value == 3; };
        if (!std::ranges::all_of(reducer->gradient(g).as<float>(), is_sum)) return Fail("sums");
      }
      return absl::OkStatus();
    });
  }
}

// A rank that returns from the step destroys its reducer; the others must not wait for ever, and
// the job's error is that rank's.
TEST(GradientReducer, ARankThatLeavesEndsTheOthersWaits) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    const absl::Status status = RunRanks(3, [policy](Communicator& comm) -> absl::Status {
      PrivateReducerOptions options;
      options.policy = policy;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {10}}}, options));
      if (comm.rank() == 2) return absl::DataLossError("a bad record");
      absl::Status lost = reducer->MarkReady(0);  // rank 2 may be gone already
      if (lost.ok()) lost = reducer->Finish();
      if (!absl::IsUnavailable(lost)) return Fail(lost.ToString());
      if (reducer->MarkReady(0) != lost) return Fail("a later call fails otherwise");
      return lost;
    });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

TEST(GradientReducer, TheTimeoutNamesTheRankThatIsAwaited) {
  std::atomic<bool> seen = false;
  const absl::Status status = RunRanks(2, [&seen](Communicator& comm) -> absl::Status {
    comm.set_timeout(std::chrono::minutes(1));  // of the wait, by a clock that leaps
    LeapingClock clock;
    PrivateReducerOptions options;
    options.clock = [&clock] { return clock.Now(); };
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {10}}}, options));
    clock.Start();
    if (comm.rank() == 1) {
      MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return seen.load(); }));
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

TEST(GradientReducer, WaitsAskWhetherPeersLive) {
  std::atomic<bool> seen = false;
  const absl::Status status = RunRanks(2, [&seen](Communicator& comm) -> absl::Status {
    Recorder recorder;
    PrivateReducerOptions options;
    options.policy = ProgressPolicy::kInline;
    options.progress = &recorder;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {10}}}, options));
    if (comm.rank() == 1) {
      MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return seen.load(); }));
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
    return recorder.last() == Place(0, 0, Phase::kWaiting) ? absl::OkStatus() : Fail("last place");
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Backward of a job that has lost a rank ends at its next bucket, whoever reduces it.
absl::Status ExpectMarkingFails(GradientReducer& reducer, std::string_view why) {
  const absl::Status marked = reducer.MarkReady(0);
  if (ToStd(marked.message()).find(why) == std::string_view::npos) return Fail(marked.ToString());
  return reducer.Finish() == marked ? absl::OkStatus() : Fail("Finish fails otherwise");
}

TEST(GradientReducer, MarkingAFullBucketAsksWhetherPeersLive) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    for (const bool owned : {true, false}) {
      Recorder recorder;
      const absl::Status status = RunRanks(1, [&](Communicator& comm) -> absl::Status {
        PrivateReducerOptions options;
        options.policy = policy;
        options.progress = &recorder;
        std::vector<float> gradient(10);
        MILLRACE_ASSIGN_OR_RETURN(
            const auto reducer,
            owned ? MakePlanned(comm, {{"g", {10}}}, options)
                  : MakePlanned(comm, {{"g", {10}}}, {{gradient.data(), DType::kF32, Shape{10}}},
                                options));
        recorder.lost = true;
        return ExpectMarkingFails(*reducer, "rank 1 was killed");
      });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(GradientReducer, MarkingAFullBucketHearsThatAPeerHasLeft) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    std::atomic<bool> left = false;
    const absl::Status status = RunRanks(2, [&](Communicator& comm) -> absl::Status {
      PrivateReducerOptions options;
      options.policy = policy;
      MILLRACE_ASSIGN_OR_RETURN(auto reducer, MakePlanned(comm, {{"g", {10}}}, options));
      if (comm.rank() == 1) {
        reducer.reset();
        left = true;
        return absl::OkStatus();
      }
      MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return left.load(); }));
      return ExpectMarkingFails(*reducer, "rank 1 is lost");
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(GradientReducer, SaysInWhichStepBucketAndPhaseItIs) {
  RunOn({0, 1, 0, 1}, [](Communicator& comm, int host) -> absl::Status {
    Recorder recorder;
    PrivateReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kInline;
    options.host = host;
    options.progress = &recorder;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
    const std::vector<size_t> order = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int step = 0; step < 2; ++step) {
      MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, step));
    }
    for (int64_t step = 0; step < 2; ++step) {
      for (size_t bucket = 0; bucket < reducer->num_buckets(); ++bucket) {
        if (recorder.Entered({step, bucket, Phase::kReducing}) != 1) return Fail("reducing");
      }
    }
    return comm.Barrier();
  });
}

absl::Status MarkBucket(GradientReducer& reducer, size_t bucket) {
  for (size_t g = 0; g < SomeGradients().size(); ++g) {
    if (reducer.bucket_of(g) == bucket) MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  return absl::OkStatus();
}

// Rank 0 has marked everything; rank 1 marks a bucket when rank 0 is at `phase` in it, or all
// buckets when it is there in the first one. In the end rank 0 has been at `phase` in each. Who
// wants the norm sums its shares itself.
void ExpectEachBucketsPhase(const Layout& layout, Phase phase, bool bucket_by_bucket) {
  Recorder recorder;
  RunOn(layout, [&](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options = SmallBuckets();
    options.policy = ProgressPolicy::kInline;
    options.skip_non_finite = true;
    options.host = host;
    if (comm.rank() == 0) options.progress = &recorder;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
    if (reducer->num_buckets() < 3) return Fail("too few buckets for this test");
    for (int64_t step = 0; step < 2; ++step) {
      for (size_t bucket = 0; bucket < reducer->num_buckets(); ++bucket) {
        const size_t awaited = bucket_by_bucket ? bucket : 0;
        if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(recorder.Await({step, awaited, phase}));
        MILLRACE_RETURN_IF_ERROR(MarkBucket(*reducer, bucket));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->Finish());
      for (size_t bucket = 0; comm.rank() == 0 && bucket < reducer->num_buckets(); ++bucket) {
        if (recorder.Entered({step, bucket, phase}) == 0) return Fail(absl::StrCat(bucket));
        if (recorder.Entered({step, bucket, Phase::kReducing}) != 1) return Fail("reducing");
      }
    }
    return comm.Barrier();
  });
}

TEST(GradientReducer, SaysInWhichBucketItWaitsForARankOfItsHost) {
  ExpectEachBucketsPhase({0, 0}, Phase::kWaiting, /*bucket_by_bucket=*/true);
}

// What is begun already ends when the other host comes, so the later buckets need not wait.
TEST(GradientReducer, SaysWhichBucketItExchangesWithOtherHosts) {
  ExpectEachBucketsPhase({0, 1}, Phase::kExchanging, /*bucket_by_bucket=*/false);
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

// Rank 1 has filled its bucket but not summed its share of it; rank 0 has. Who wants the norm sums
// for nobody else.
TEST(GradientReducer, SaysThatItWaitsForTheSharesOfOthers) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    std::atomic<bool> marked = false;
    WaitingWatch watch;
    RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
      PrivateReducerOptions options;
      options.skip_non_finite = true;
      options.host = host;
      options.policy = comm.rank() == 0 ? policy : ProgressPolicy::kInline;
      if (comm.rank() == 0) options.progress = &watch;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {10}}}, options));
      if (comm.rank() == 0) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return marked.load(); }));
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
      marked = true;
      if (comm.rank() == 1) {
        MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return watch.waits.load(); }));
      }
      return reducer->Finish();
    });
  }
}

}  // namespace
}  // namespace millrace::collectives
