#include "collectives/stale_reducer.h"

#include <algorithm>
#include <atomic>

#include "collectives/agreed.h"
#include "collectives/peer_lost.h"
#include "collectives/reducer/make_reducer.h"
#include "gmock/gmock.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

const std::vector<GradientSpec> kTwo = {{"a", {1000}}, {"b", {3}}};

// Marks a step whose gradients are all `value`.
absl::Status Step(StaleReducer& reducer, float value) {
  for (size_t g = 0; g < 2; ++g) {
    const auto values = reducer.gradient(g).as<float>();
    std::fill(values.begin(), values.end(), value);
    MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  return reducer.Finish();
}

// Steps whose sums come with each of nine Finish calls.
std::vector<std::vector<int>> Arrivals(int delay, int64_t pipelined) {
  std::vector<std::vector<int>> arrivals(9);
  for (int step = 0; step < 9; ++step) {
    const int due = step < pipelined ? step - delay : step;
    int first = 0;
    for (int before = 0; before < step; ++before)
      first += static_cast<int>(arrivals[before].size());
    for (int s = first; s <= due; ++s) arrivals[step].push_back(s);
  }
  return arrivals;
}

TEST(StaleReducer, SumsComeLateFirstThenInTheirStepAndEachOnce) {
  EXPECT_EQ(Arrivals(2, 5),
            (std::vector<std::vector<int>>{{}, {}, {0}, {1}, {2}, {3, 4, 5}, {6}, {7}, {8}}));
  for (const Layout& layout : {Layout{0, 0}, Layout{0, 0, 1}, Layout{0, 1}}) {
    for (const int delay : {0, 1, 2, 3}) {
      for (const int64_t pipelined : {0, 1, 5, 100}) {
        const auto arrivals = Arrivals(delay, pipelined);
        RunOn(layout, [&](Communicator& comm, int host) -> absl::Status {
          PrivateReducerOptions options = SmallBuckets();
          options.host = host;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    StaleMaker::Make(comm, kTwo, options, {delay, pipelined}));
          for (int step = 0; step < 9; ++step) {
            MILLRACE_RETURN_IF_ERROR(Step(*reducer, static_cast<float>(step + 1)));
            if (reducer->ready().size() != arrivals[step].size()) return Fail("how many");
            for (size_t k = 0; k < reducer->ready().size(); ++k) {
              const auto sum = static_cast<float>((arrivals[step][k] + 1) * comm.size());
              for (size_t g = 0; g < 2; ++g) {
                for (const float value : reducer->ready()[k]->gradient(g).as<float>()) {
                  if (value != sum) return Fail("sum");
                }
              }
            }
          }
          return comm.Barrier();
        });
      }
    }
  }
}

TEST(StaleReducer, APipelinedStepDoesNotWaitForSlowPeers) {
  std::atomic<bool> ahead = false;
  RunOn({0, 0}, [&ahead](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options;
    options.host = host;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, StaleMaker::Make(comm, kTwo, options, {2, 100}));
    if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return ahead.load(); }));
    MILLRACE_RETURN_IF_ERROR(Step(*reducer, 1));
    MILLRACE_RETURN_IF_ERROR(Step(*reducer, 1));
    ahead = true;
    MILLRACE_RETURN_IF_ERROR(Step(*reducer, 1));
    return comm.Barrier();
  });
}

TEST(StaleReducer, CountsTheStepsWhoseSumsHaveCome) {
  const auto arrivals = Arrivals(2, 5);
  RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options = SmallBuckets();
    options.host = host;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, StaleMaker::Make(comm, kTwo, options, {2, 5}));
    int64_t steps = 0;
    for (int step = 0; step < 9; ++step) {
      MILLRACE_RETURN_IF_ERROR(Step(*reducer, 1));
      steps += static_cast<int64_t>(arrivals[step].size());
      const ReducerCounters counters = reducer->counters();
      if (counters.steps != steps) return Fail("steps");
      if (counters.total().bytes < steps * 4 * 1003) return Fail("bytes");
      if ((counters.last_finish_seconds > 0) != !arrivals[step].empty()) return Fail("last");
    }
    return comm.Barrier();
  });
}

TEST(StaleReducer, AMissingGradientIsNamedAndTheStepStaysOpen) {
  RunOn({0, 0}, [](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options;
    options.host = host;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, StaleMaker::Make(comm, kTwo, options, {1, 2}));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    EXPECT_MESSAGE(reducer->Finish(), absl::StatusCode::kFailedPrecondition, "every-rank");
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(1));
    return reducer->Finish();
  });
}

// Whichever step it is that the other waits in.
TEST(StaleReducer, WhoLeavesTellsWhyInAllSteps) {
  const absl::Status why = absl::DataLossError("a broken disk");
  for (const int steps : {0, 1, 2}) {
    RunOn({0, 0}, [&](Communicator& comm, int host) -> absl::Status {
      PrivateReducerOptions options;
      options.host = host;
      options.first_step = 100;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, StaleMaker::Make(comm, kTwo, options, {1, 9}));
      absl::Status outcome;
      if (comm.rank() == 1) {
        for (int step = 0; step < steps; ++step) MILLRACE_RETURN_IF_ERROR(Step(*reducer, 1));
        reducer->Leave(why);
        EXPECT_EQ(reducer->MarkReady(0), why);
        EXPECT_EQ(reducer->Finish(), why);
      }
      while (comm.rank() == 0 && outcome.ok()) outcome = Step(*reducer, 1);
      EXPECT_TRUE(comm.rank() == 1 ||
                  ToStd(outcome.message()).ends_with("it has failed: DATA_LOSS: a broken disk"))
          << outcome;
      if (comm.rank() == 1) return comm.Barrier();
      // The last step that rank 1 has marked, if its part of the sums was not there yet, or the
      // next.
      const int64_t step = PeerLostOf(outcome).value_or(PeerLost{}).step;
      EXPECT_GE(step, 100 + std::max(0, steps - 1));
      EXPECT_LE(step, 100 + steps);
      return comm.Barrier();
    });
  }
}

TEST(StaleReducer, OptionsThatDifferOrAreBadAreEveryRanksError) {
  const auto refused =
      [](const std::function<void(int, PrivateReducerOptions&, StaleOptions&)>& change) {
        absl::Status outcome;
        const absl::Status run = RunRanks(3, [&](Communicator& comm) -> absl::Status {
          PrivateReducerOptions options;
          StaleOptions stale = {1, 10};
          change(comm.rank(), options, stale);
          const absl::Status status = StaleMaker::Make(comm, kTwo, options, stale).status();
          if (!absl::IsInvalidArgument(status) || !IsAgreed(status)) return Fail(status.ToString());
          if (comm.rank() == 0) outcome = status;
          return absl::OkStatus();
        });
        EXPECT_TRUE(run.ok()) << run;
        return outcome;
      };
  EXPECT_MESSAGE(refused([](int rank, auto&, auto& stale) { stale.pipelined_steps += rank == 2; }));
  EXPECT_MESSAGE(refused([](int rank, auto&, auto& stale) { stale.delay = rank == 1 ? 17 : 1; }));
  EXPECT_MESSAGE(refused([](int, auto& options, auto&) { options.shard = true; }));
  EXPECT_MESSAGE(refused([](int, auto& options, auto&) { options.micro_batches = 2; }));
}

}  // namespace
}  // namespace millrace::collectives
