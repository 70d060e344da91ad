#include "collectives/reducer_counters.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "gtest/gtest.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/reducer/awaited_bucket.h"
#include "tests/collectives/reducer/counted_steps.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {
namespace {

TEST(ReducerCounters, EveryStepAddsTheBytesOfEachBucketAndNoMoreTimeThanItTook) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    for (const Layout& layout : kLayouts) {
      RunOn(layout, [policy](Communicator& comm, int host) -> absl::Status {
        PrivateReducerOptions options;
        options.policy = policy;
        options.host = host;
        return CheckCounters(comm, options);
      });
    }
  }
}

// The last rank measures how long it keeps rank 0 waiting, from when it sees it wait.
TEST(ReducerCounters, AWaitForAPeerIsExposedInItsBucketAndThePeerIsNamed) {
  const std::vector<GradientSpec> gradients = {{"a", {1000}}, {"b", {2000}}};
  for (const auto& [layout, in_user_buffers] :
       {std::pair(Layout{0, 0}, false), std::pair(Layout{0, 0}, true),
        std::pair(Layout{0, 1, 0}, false)}) {
    const bool slots = in_user_buffers;
    const int late = static_cast<int>(layout.size()) - 1;
    AwaitedBucket watch(late);
    std::atomic<double> kept = 0;
    RunOn(layout, [&](Communicator& comm, int host) -> absl::Status {
      PrivateReducerOptions options = SmallBuckets();
      options.host = host;
      options.policy = ProgressPolicy::kInline;
      if (comm.rank() == 0) options.progress = &watch;
      UserGradients memory(gradients);
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                slots ? MakePlanned(comm, gradients, memory.views(), options)
                                      : MakePlanned(comm, gradients, options));
      if (comm.rank() == late) {
        MILLRACE_RETURN_IF_ERROR(watch.AwaitIt(0, 0));
        MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
        MILLRACE_RETURN_IF_ERROR(watch.AwaitIt(0, 1));
        const Clock::time_point start = Clock::now();
        while (SecondsSince(start) < 1e-3) std::this_thread::yield();
        kept = SecondsSince(start);
        MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(1));
      } else {
        MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, 2));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->Finish());
      const ReducerCounters& counters = reducer->counters();
      if (comm.rank() == late && counters.last_awaited != -1) return Fail("it waited for nobody");
      if (comm.rank() != 0) return absl::OkStatus();
      if (counters.last_awaited != late) return Fail(absl::StrCat(counters.last_awaited));
      if (counters.buckets[1].exposed_seconds < kept) return Fail("less than it was kept");
      const double apart = counters.total().exposed_seconds - counters.last_finish_seconds;
      return std::abs(apart) < 1e-6 ? absl::OkStatus() : Fail("all was in Finish");
    });
  }
}

TEST(ReducerCounters, OnOneHostReducingTakesTimeAndNoMoreThanTheSteps) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    for (const Layout& layout : {Layout{0, 0}, Layout{0, 0, 0}}) {
      RunOn(layout, [policy](Communicator& comm, int host) -> absl::Status {
        PrivateReducerOptions options = SmallBuckets();
        options.host = host;
        options.policy = policy;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
        const Clock::time_point start = Clock::now();
        MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
        MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        const double took = SecondsSince(start);
        const double seconds = reducer->counters().total().seconds;
        return seconds > 0 && seconds <= took ? absl::OkStatus()
                                              : Fail(absl::StrCat(seconds, " s of ", took));
      });
    }
  }
}

// Tells that a rank which reduces inline has begun to reduce a bucket, and waits in it.
class BegunBucket : public Progress {
 public:
  void Enter(int64_t, int bucket, Phase phase) override {
    if (phase == Phase::kReducing) entered_ = bucket;
  }
  absl::Status Health() const override {
    begun_ = entered_.load();
    return absl::OkStatus();
  }
  absl::Status AwaitIt(int bucket) const {
    return AwaitUntil([&] { return begun_ >= bucket; });
  }

 private:
  std::atomic<int> entered_ = -1;
  mutable std::atomic<int> begun_ = -1;
};

// The rank of the other host measures how long it keeps rank 0's exchange waiting.
TEST(ReducerCounters, WhatAnExchangeWaitsForAnotherHostIsInTheSecondsOfItsBucket) {
  BegunBucket watch;
  std::atomic<double> kept = 0;
  RunOn({0, 1}, [&](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options = SmallBuckets();
    options.host = host;
    options.policy = ProgressPolicy::kInline;
    if (comm.rank() == 0) options.progress = &watch;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              MakePlanned(comm, {{"a", {1000}}, {"b", {2000}}}, options));
    if (comm.rank() == 1) {
      MILLRACE_RETURN_IF_ERROR(watch.AwaitIt(1));
      const Clock::time_point start = Clock::now();
      while (SecondsSince(start) < 1e-3) std::this_thread::yield();
      kept = SecondsSince(start);
    }
    MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, 2));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    const double seconds = reducer->counters().buckets[1].seconds;
    return comm.rank() == 1 || seconds >= kept ? absl::OkStatus() : Fail(absl::StrCat(seconds));
  });
}

// What is reduced before Finish costs the caller time too.
TEST(ReducerCounters, WhatMarkReadyReducesIsExposedAsWell) {
  std::atomic<bool> marked = false;
  RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options = SmallBuckets();
    options.host = host;
    options.policy = ProgressPolicy::kInline;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"a", {100'000}}}, options));
    if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return marked.load(); }));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    marked = true;
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    const ReducerCounters& counters = reducer->counters();
    if (comm.rank() == 0) return absl::OkStatus();
    return counters.total().exposed_seconds >=
                   counters.last_finish_seconds + counters.total().seconds
               ? absl::OkStatus()
               : Fail("the reduction is missing");
  });
}

// Rank 0 reduces the second reducer's bucket while it waits in the Finish of the first.
TEST(ReducerCounters, WhatATeamReducesInAnothersFinishIsExposedOnce) {
  AwaitedBucket watch(1);
  RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
    ReducerTeam team;
    PrivateReducerOptions options;
    options.host = host;
    options.policy = ProgressPolicy::kInline;
    options.team = &team;
    MILLRACE_ASSIGN_OR_RETURN(const auto second, MakePlanned(comm, {{"b", {100'000}}}, options));
    if (comm.rank() == 0) options.progress = &watch;
    MILLRACE_ASSIGN_OR_RETURN(const auto first, MakePlanned(comm, {{"a", {9}}}, options));
    if (comm.rank() == 1) {
      MILLRACE_RETURN_IF_ERROR(watch.AwaitIt(0, 0));
      MILLRACE_RETURN_IF_ERROR(second->MarkReady(0));
      MILLRACE_RETURN_IF_ERROR(second->Finish());
      MILLRACE_RETURN_IF_ERROR(first->MarkReady(0));
      return first->Finish();
    }
    MILLRACE_RETURN_IF_ERROR(second->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(first->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(first->Finish());
    MILLRACE_RETURN_IF_ERROR(second->Finish());
    const ReducerCounters& counters = second->counters();
    // MarkReady found nothing to reduce.
    const double apart = counters.total().exposed_seconds - counters.last_finish_seconds;
    return std::abs(apart) < 1e-6 ? absl::OkStatus() : Fail(absl::StrCat(apart, " s twice"));
  });
}

TEST(ReducerCounters, GatheringShardsIsExposedAndInNoBucket) {
  RunOn({0, 0}, [](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options;
    options.host = host;
    options.shard = true;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"a", {1000}}}, options));
    MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, 1));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    const ReducerCounters before = reducer->counters();
    MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
    const ReducerCounters& after = reducer->counters();
    if (before.gather_seconds != 0 || after.gather_seconds <= 0) return Fail("not counted");
    const double more = after.total().exposed_seconds - before.total().exposed_seconds;
    return std::abs(more - after.gather_seconds) < 1e-9 ? absl::OkStatus() : Fail("not exposed");
  });
}

// Where it stands is what it has entered last.
class LastPhase : public AwaitedBucket {
 public:
  using AwaitedBucket::AwaitedBucket;
  void Enter(int64_t, int, Phase phase) override { phase_ = phase; }
  Phase phase() const { return phase_; }

 private:
  std::atomic<Phase> phase_ = Phase::kBackward;
};

// The slots' waits are neither the step's nor a place where the reducer would stay.
TEST(ReducerCounters, WaitsOfAGatherOfTheCallersMemoryAreNotTheSteps) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    LastPhase watch(1);
    RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
      const std::vector<GradientSpec> gradients = {{"a", {1000}}};
      UserGradients memory(gradients);
      PrivateReducerOptions options;
      options.host = host;
      options.shard = true;
      options.policy = policy;
      if (comm.rank() == 0) options.progress = &watch;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                MakePlanned(comm, gradients, memory.views(), options));
      for (int step = 0; step < 3; ++step) {
        MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, 1));
        MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(watch.AwaitIt(step + 1, 0));
        MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
        if (watch.phase() == Phase::kWaiting && comm.rank() == 0) return Fail("it still waits");
        MILLRACE_RETURN_IF_ERROR(comm.Barrier());
      }
      return absl::OkStatus();
    });
  }
}

}  // namespace
}  // namespace millrace::collectives
