// Gradients in a device's memory: the reducer over NCCL, here a fake one whose device is the host.
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/agreed.h"
#include "collectives/peer_lost.h"
#include "collectives/progress.h"
#include "collectives/reducer/make_reducer.h"
#include "collectives/reducer/private_options.h"
#include "gmock/gmock.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/lost_while.h"
#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/collectives/reducer/awaited_bucket.h"
#include "tests/collectives/reducer/counted_steps.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/collectives/reducer/staged_reducer.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

// `body` with the stream on which gradients are written: the communicator's, or one of their own.
absl::Status RunWithStream(
    int size, bool of_gradients,
    const std::function<absl::Status(NcclCommunicator&, HostStream&)>& body) {
  return RunRanks(size, [&](Communicator& bootstrap) -> absl::Status {
    HostStream* stream = nullptr;
    HostStream own;
    NcclOptions options = {.library = FAKE_NCCL};
    if (of_gradients) options.gradient_stream = &own;
    const auto make_queue = [&stream]() -> absl::StatusOr<std::unique_ptr<DeviceQueue>> {
      auto queue = std::make_unique<HostQueue>();
      stream = static_cast<HostStream*>(queue->stream());
      return queue;
    };
    MILLRACE_ASSIGN_OR_RETURN(const auto comm, nccl::MakeNcclOn(bootstrap, options, make_queue));
    return body(*comm, of_gradients ? own : *stream);
  });
}

// `check` on one to four ranks, with sums begun by MarkReady and by Finish.
void RunOnAll(const CheckOfOptions& check) {
  for (const int size : {1, 2, 3, 4}) {
    for (const ProgressPolicy policy : {ProgressPolicy::kStream, ProgressPolicy::kInline}) {
      const absl::Status status =
          RunOverFakeNccl(size, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) {
            ReducerOptions options;
            options.policy = policy;
            return check(comm, options, MakeOwned);
          });
      EXPECT_TRUE(status.ok()) << size << " ranks: " << status;
    }
  }
}

TEST(StreamReducer, IsChosenOverNcclAndSaysSo) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) -> absl::Status {
        for (const auto& [policy, expected] : std::map<ProgressPolicy, std::string>{
                 {ProgressPolicy::kAuto,
                  "reduced on the device's stream (gradients are in a device's memory)"},
                 {ProgressPolicy::kStream, "reduced on the device's stream (as asked for)"},
                 {ProgressPolicy::kInline, "reduced inline (as asked for)"}}) {
          ReducerOptions options = SmallBuckets();
          options.policy = policy;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), options));
          if (reducer->Summary().find(expected) == std::string::npos)
            return Fail(reducer->Summary());
          const std::vector<size_t> order = {3, 0, 7, 1, 2, 6, 5, 4};
          for (int step = 0; step < 3; ++step) {
            MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, step));
          }
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// The device is held, so that nothing that waits for it returns.
TEST(StreamReducer, MarkReadyPutsFullBucketsOnTheStreamAndDoesNotWait) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  for (const bool stream_policy : {true, false}) {
    std::atomic<int> marked = 0;
    const absl::Status status = RunWithStream(
        2, /*of_gradients=*/false, [&](NcclCommunicator& comm, HostStream& stream) -> absl::Status {
          ReducerOptions options = SmallBuckets();
          options.policy = stream_policy ? ProgressPolicy::kAuto : ProgressPolicy::kInline;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), options));
          MILLRACE_RETURN_IF_ERROR(comm.bootstrap().Barrier());  // nobody is in Make any more
          control.Hold();
          const uint64_t before = stream.issued();
          MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
          const uint64_t after = stream.issued();
          if (++marked == 2) control.Release();
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          const uint64_t expected = stream_policy ? reducer->num_buckets() : 0;
          return after - before == expected ? absl::OkStatus()
                                            : Fail(absl::StrCat(after - before, " begun"));
        });
    control.Release();
    EXPECT_TRUE(status.ok()) << status;
  }
}

// A communicator's first calls wait for the peers'.
TEST(StreamReducer, TheFirstStepsMarkReadyDoesNotWaitForPeers) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  control.connects_by_calls = true;
  ReducerOptions exact = SmallBuckets();
  exact.exact = true;
  ReducerOptions averaged = SmallBuckets();
  averaged.average_by_rows = true;
  averaged.skip_non_finite = true;
  for (const auto& [options, in_user_buffers] :
       {std::pair(SmallBuckets(), false), std::pair(exact, true), std::pair(averaged, false),
        std::pair(averaged, true)}) {
    std::atomic<bool> marked = false;
    const absl::Status status =
        RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
          comm.set_timeout(std::chrono::seconds(20));
          MakeReducer make = MakeOwned;
          if (in_user_buffers) make = MakeInUserBuffers();
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, SomeGradients(), options));
          reducer->SetRows(1);
          if (comm.rank() == 1) MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return marked.load(); }));
          const absl::Status outcome = MarkAll(*reducer, SomeGradients().size());
          marked = true;
          MILLRACE_RETURN_IF_ERROR(outcome);
          return reducer->Finish();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
  control.connects_by_calls = false;
}

// Although it sums.
TEST(StreamReducer, MakeLeavesTheCallersMemoryAsItIs) {
  ReducerOptions copied;
  copied.skip_non_finite = true;
  for (const ReducerOptions& options : {ReducerOptions(), copied}) {
    const absl::Status status =
        RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
          const std::vector<GradientSpec> gradients = {{"a", {100}}};
          UserGradients memory(gradients);
          std::ranges::fill(memory.views()[0].as<float>(), 7);
          MILLRACE_RETURN_IF_ERROR(
              GradientReducer::Make(comm, gradients, memory.views(), options).status());
          const bool kept = std::ranges::count(memory.views()[0].as<float>(), 7.0f) == 100;
          return kept ? absl::OkStatus() : Fail("it is written to");
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(StreamReducer, EveryStepAddsTheBytesOfEachBucketAndNoMoreTimeThanItTook) {
  RunOnAll([](Communicator& comm, const ReducerOptions& options, const MakeReducer&) {
    return CheckCounters(comm, options);
  });
}

// With sums that Finish begins there is no such time.
TEST(StreamReducer, WhatMarkReadyPutsOnTheStreamIsExposedAsWell) {
  for (const bool stream_policy : {true, false}) {
    const absl::Status status =
        RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
          ReducerOptions options;
          options.policy = stream_policy ? ProgressPolicy::kStream : ProgressPolicy::kInline;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), options));
          const Clock::time_point start = Clock::now();
          MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
          const double took = SecondsSince(start);
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          const ReducerCounters& counters = reducer->counters();
          const double before = counters.total().exposed_seconds - counters.last_finish_seconds;
          if (before > took) return Fail("more than MarkReady took");
          constexpr double kRounding = 1e-9;
          const bool counted = before > kRounding;
          return counted == stream_policy ? absl::OkStatus() : Fail(absl::StrCat(before, " s"));
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(StreamReducer, TakesTheCallersDeviceMemoryAlsoFromAnOldLibrary) {
  const std::vector<GradientSpec> gradients = {{"a", {700}}, {"b", {0}}, {"c", {33}}};
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL_BARE}, [&](NcclCommunicator& comm) -> absl::Status {
        const absl::Status none = GradientReducer::Make(comm, gradients).status();
        EXPECT_MESSAGE(none, absl::StatusCode::kUnimplemented, "every-rank");
        UserGradients memory(gradients);
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, gradients, memory.views()));
        return StepInOrder(comm, *reducer, {2, 0, 1}, 0);
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StreamReducer, OptionsHoldInTheCallersMemory) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) {
        return CheckAllOptions(comm, ReducerOptions(), MakeInUserBuffers());
      });
  EXPECT_TRUE(status.ok()) << status;
}

// As on a GPU, whose tests cannot show that the staging itself is right.
TEST(StreamReducer, OptionsHoldBehindStagedGradients) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) {
        return CheckAllOptions(comm, ReducerOptions(), StagedReducer::Make);
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StreamReducer, ExactSumsHaveTheBitsOfAFlatSum) {
  RunOnAll([](Communicator& comm, ReducerOptions options, const MakeReducer& make) {
    options.exact = true;
    return CheckFlatSums(comm, options, make);
  });
}

TEST(StreamReducer, RaggedBatchesAreAveragedByTheRowsOfAllRanks) {
  for (const bool exact : {false, true}) {
    RunOnAll([exact](Communicator& comm, ReducerOptions options, const MakeReducer& make) {
      options.exact = exact;
      return CheckRaggedBatches(comm, options, make);
    });
  }
}

TEST(StreamReducer, AllRanksSkipTheStepThatIsNotFiniteOnOne) { RunOnAll(CheckSkippedSteps); }

TEST(StreamReducer, TheClipFactorLimitsTheNormOfAllGradients) { RunOnAll(CheckClipFactor); }

TEST(StreamReducer, MicroBatchesAddUpBeforeRanksDo) { RunOnAll(CheckMicroBatches); }

TEST(StreamReducer, ShardsAreSummedByOneRankEachAndGathered) {
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    RunOnAll([wire](Communicator& comm, ReducerOptions options, const MakeReducer& make) {
      options.wire = wire;
      return CheckShards(comm, options, make);
    });
  }
}

TEST(StreamReducer, ANarrowWireRoundsWhatItCarries) {
  for (const bool shard : {false, true}) {
    RunOnAll([shard](Communicator& comm, ReducerOptions options, const MakeReducer& make) {
      options.shard = shard;
      return CheckNarrowWire(comm, options, make);
    });
  }
}

// Also of 16-bit gradients, where sums are exact. As many ranks as make a sum that 16 bits hold.
TEST(StreamReducer, SixteenBitsOnTheWireAreAddedInFloat32) {
  for (const DType rounded : {DType::kBF16, DType::kF16}) {
    for (const int size : {3, 5}) {
      const absl::Status status =
          RunOverFakeNccl(size, {.library = FAKE_NCCL}, [&](Communicator& comm) -> absl::Status {
            PrivateReducerOptions options;
            options.host = comm.rank();
            options.exact = true;
            MILLRACE_RETURN_IF_ERROR(SumOnesAndALargeNumber(
                comm, size, true, rounded, {"g", {40000}, rounded}, options, MakeOwned));
            options.exact = false;
            options.wire = rounded;
            for (const bool shard : {false, true}) {
              options.shard = shard;
              MILLRACE_RETURN_IF_ERROR(SumOnesAndALargeNumber(comm, size, true, rounded,
                                                              {"g", {40000}}, options, MakeOwned));
            }
            return absl::OkStatus();
          });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// The bits of sums in buckets, and all that is known of a step, with several options at once:
// summed one by one, and through buckets, as in a team, whatever the options.
TEST(StreamReducer, GradientsInTheCallersMemoryAreThoseOfBuckets) {
  ReducerOptions averaged;
  averaged.average_by_rows = true;
  ReducerOptions exact = averaged;
  exact.exact = true;
  exact.micro_batches = 2;
  ReducerOptions wired = averaged;
  wired.wire = DType::kBF16;
  wired.clip_norm = 1;
  ReducerOptions sharded = wired;
  sharded.shard = true;
  sharded.micro_batches = 2;
  ReducerOptions normed;
  normed.skip_non_finite = true;
  for (const auto& [kind, in_a_team, copied] :
       {std::tuple(averaged, false, false), std::tuple(averaged, true, true),
        std::tuple(exact, false, true), std::tuple(wired, false, true),
        std::tuple(sharded, false, true), std::tuple(sharded, true, true),
        std::tuple(normed, false, true)}) {
    const absl::Status status =
        RunOverFakeNccl(3, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
          ReducerTeam team;
          ReducerOptions options = kind;
          if (in_a_team) options.team = &team;
          MILLRACE_RETURN_IF_ERROR(CompareUserBuffersWithOwned(comm, options));
          UserGradients memory(SomeGradients());
          MILLRACE_ASSIGN_OR_RETURN(
              const auto reducer,
              GradientReducer::Make(comm, SomeGradients(), memory.views(), options));
          const std::string expected = copied ? "copied to buckets and back" : "summed one by one";
          const bool said = reducer->Summary().find(expected) != std::string::npos;
          return said ? absl::OkStatus() : Fail(reducer->Summary());
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// A watchdog excuses a peer that waits in the same bucket.
TEST(StreamReducer, DoesNotSayThatItWaitsBehindAGather) {
  class LastPhase final : public Progress {
   public:
    void Enter(int64_t, int, Phase phase) override { last = phase; }
    absl::Status Health() const override { return absl::OkStatus(); }
    Phase last = Phase::kWaiting;
  };
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) -> absl::Status {
        LastPhase progress;
        ReducerOptions options;
        options.shard = true;
        options.progress = &progress;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, SomeGradients(), options));
        MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
        MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
        return progress.last == Phase::kBackward ? absl::OkStatus() : Fail("another phase");
      });
  EXPECT_TRUE(status.ok()) << status;
}

// Keeps the places that a rank shows as it waits.
class ShownPlaces final : public Progress {
 public:
  using Place = std::pair<int, Phase>;  // a bucket and the phase there

  void Enter(int64_t, int bucket, Phase phase) override { place_ = {bucket, phase}; }
  absl::Status Health() const override {
    if (!on_question) return absl::OkStatus();
    if (shown_.empty() || shown_.back() != place_) shown_.push_back(place_);
    on_question(place_);
    return absl::OkStatus();
  }
  const std::vector<Place>& shown() const { return shown_; }

  // Called each time that a wait asks for its health; empty: nothing is kept.
  std::function<void(const Place&)> on_question;

 private:
  Place place_;
  mutable std::vector<Place> shown_;
};

// Two ranks take a step, or steps whose sums are late. The device of rank 1 stands still before the
// first gradient until rank 0 waits for it; then calls of NCCL stay at the heads of their streams
// until rank 1 waits, too.
absl::Status WaitForADevice(NcclCommunicator& comm, HostStream& stream,
                            PrivateReducerOptions options, bool late,
                            std::atomic<bool>& is_awaited) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  const ShownPlaces::Place waits = {0, Phase::kWaiting};
  std::promise<void> goes_on;
  bool stands = true;
  ShownPlaces places;
  options.progress = &places;
  const StaleOptions stale = {.delay = 1, .pipelined_steps = late ? 2 : 0};
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                            StaleMaker::Make(comm, SomeGradients(), options, stale));
  MILLRACE_RETURN_IF_ERROR(comm.bootstrap().Barrier());  // nobody is in Make any more
  control.Hold();
  if (comm.rank() == 1) {
    stream.Enqueue([passed = goes_on.get_future().share()] { passed.wait(); });
  }
  places.on_question = [&](const ShownPlaces::Place& place) {
    if (comm.rank() == 0) {
      if (place == waits) is_awaited = true;
      return;
    }
    if (place == waits) control.Release();
    if (is_awaited && std::exchange(stands, false)) goes_on.set_value();
  };
  for (int step = 0; step < (late ? 3 : 1); ++step) {
    reducer->SetRows(1);
    for (size_t i = 0; i < SomeGradients().size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(i));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
  }
  const std::vector<ShownPlaces::Place>& shown = places.shown();
  if (comm.rank() == 0 || (shown.size() > 1 && shown[1] == waits &&
                           shown[0] == ShownPlaces::Place(0, Phase::kBackward))) {
    return absl::OkStatus();
  }
  return Fail(absl::StrCat(shown.size(), " places, the first one ",
                           shown.empty() ? "" : Name(shown[0].second)));
}

// Else a watchdog, which excuses ranks that wait in the same bucket, would find nobody.
TEST(StreamReducer, WaitsForOthersOnlyOnceItsOwnDeviceIsThere) {
  PrivateReducerOptions exact = SmallBuckets<PrivateReducerOptions>();
  exact.exact = true;
  exact.average_by_rows = true;
  for (const PrivateReducerOptions& options : {SmallBuckets<PrivateReducerOptions>(), exact}) {
    for (const bool late : {false, true}) {
      std::atomic<bool> is_awaited = false;
      const absl::Status status =
          RunWithStream(2, /*of_gradients=*/true, [&](NcclCommunicator& comm, HostStream& stream) {
            return WaitForADevice(comm, stream, options, late, is_awaited);
          });
      ControlOf(FAKE_NCCL).Release();
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(StreamReducer, LateSumsComeInTheirSteps) {
  for (const ProgressPolicy policy : {ProgressPolicy::kStream, ProgressPolicy::kInline}) {
    ReducerOptions options;
    options.policy = policy;
    const absl::Status status = RunOverFakeNccl(
        2, {.library = FAKE_NCCL},
        [&options](NcclCommunicator& comm) { return CheckLateSums(comm, options); });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// The device of one rank has no memory left, or no stream.
class FullQueue final : public HostQueue {
 public:
  absl::StatusOr<void*> Allocate(size_t) override { return Full(); }
  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override { return Full(); }

 private:
  static absl::Status Full() {
    return absl::ResourceExhaustedError("cudaMallocAsync: out of memory");
  }
};

TEST(StreamReducer, MissingMemoryOfOneRankIsNamedByAll) {
  for (const bool in_a_team : {false, true}) {
    std::vector<absl::Status> outcomes(2);
    const absl::Status status = RunRanks(2, [&](Communicator& bootstrap) -> absl::Status {
      const auto make_queue = [&bootstrap]() -> absl::StatusOr<std::unique_ptr<DeviceQueue>> {
        if (bootstrap.rank() == 0) return MakeHostQueue();
        return std::make_unique<FullQueue>();
      };
      MILLRACE_ASSIGN_OR_RETURN(const auto comm,
                                nccl::MakeNcclOn(bootstrap, {.library = FAKE_NCCL}, make_queue));
      ReducerTeam team;
      ReducerOptions options;
      options.clip_norm = 1;
      if (in_a_team) options.team = &team;
      outcomes[bootstrap.rank()] = GradientReducer::Make(*comm, SomeGradients(), options).status();
      return comm->Barrier();
    });
    EXPECT_TRUE(status.ok()) << status;
    for (const absl::Status& outcome : outcomes) {
      EXPECT_TRUE(IsAgreed(outcome)) << outcome;
      EXPECT_MESSAGE(outcome, absl::StatusCode::kResourceExhausted, "every-rank");
    }
  }
}

// Gradients, and then the own shards, are written on `written` a while after the calls that read
// them.
absl::Status ReduceWhatIsWrittenLate(NcclCommunicator& comm, HostStream& written,
                                     const ReducerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                            GradientReducer::Make(comm, {{"a", {100}}}, options));
  const std::span<float> gradient = reducer->gradient(0).as<float>();
  const auto write_late = [&](size_t begin, size_t end, float value) {
    written.Enqueue([part = gradient.subspan(begin, end - begin), value] {
      Dawdle();
      std::ranges::fill(part, value);
    });
  };
  for (int batch = 1; batch <= options.micro_batches; ++batch) {
    write_late(0, 100, static_cast<float>(batch));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
  }
  const GradientShard own = reducer->shards()[0];
  const auto sum = static_cast<float>(options.micro_batches == 1 ? comm.size() : 3 * comm.size());
  if (gradient[own.begin] != sum) return Fail(absl::StrCat("sum ", gradient[own.begin]));
  write_late(own.begin, own.end, 7);
  MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
  return std::ranges::count(gradient, 7.0f) == 100 ? absl::OkStatus() : Fail("gathered too soon");
}

TEST(StreamReducer, SumsBeginBehindTheStreamThatWritesGradients) {
  for (const int micro_batches : {1, 2}) {
    for (const bool in_a_team : {false, true}) {
      // A team's reducer has a stream of its own, which follows the communicator's.
      const absl::Status status = RunWithStream(
          2, /*of_gradients=*/!in_a_team, [&](NcclCommunicator& comm, HostStream& stream) {
            ReducerTeam team;
            ReducerOptions options;
            options.shard = true;
            options.micro_batches = micro_batches;
            if (in_a_team) options.team = &team;
            return ReduceWhatIsWrittenLate(comm, stream, options);
          });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// The device is held, so that nothing that waits for it returns.
TEST(StreamReducer, ARankAloneDoesNotAwaitSumsThatItsStreamUses) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  const absl::Status status = RunWithStream(
      1, /*of_gradients=*/true, [&](NcclCommunicator& comm, HostStream& stream) -> absl::Status {
        ReducerOptions options = SmallBuckets();
        options.average_by_rows = true;
        options.uses_sums_on_stream = true;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, SomeGradients(), options));
        float* const gradient = reducer->gradient(0).as<float>().data();
        std::vector<float> sums;
        for (int step = 1; step <= 3; ++step) {
          stream.Enqueue([=] { *gradient = static_cast<float>(8 * step); });
          reducer->SetRows(4);
          control.Hold();
          MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          EXPECT_EQ(reducer->outcome().rows, 4);
          stream.Enqueue([&sums, gradient] { sums.push_back(*gradient); });
          control.Release();
          stream.Wait();
        }
        EXPECT_THAT(sums, testing::ElementsAre(2, 4, 6));
        return absl::OkStatus();
      });
  control.Release();
  EXPECT_TRUE(status.ok()) << status;
}

// Also marked in unlike orders, where the first calls of each would wait for the others'.
TEST(StreamReducer, ATeamIsFinishedInUnlikeOrders) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  control.connects_by_calls = true;
  ReducerOptions sharded = SmallBuckets();
  sharded.shard = true;
  for (const ReducerOptions& with : {SmallBuckets(), sharded}) {
    for (const ProgressPolicy policy : {ProgressPolicy::kStream, ProgressPolicy::kInline}) {
      const absl::Status status =
          RunOverFakeNccl(3, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) {
            comm.set_timeout(std::chrono::seconds(20));
            ReducerTeam team;
            ReducerOptions options = with;
            options.team = &team;
            return FinishTwoInUnlikeOrders(comm, options, policy);
          });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  control.connects_by_calls = false;
}

TEST(StreamReducer, ATeamOfOneRankAloneIsNamed) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) {
        ReducerTeam team;
        ReducerOptions options;
        if (comm.rank() == 1) options.team = &team;
        return GradientReducer::Make(comm, SomeGradients(), options).status();
      });
  EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument);
}

TEST(StreamReducer, AThreadIsNotTaken) {
  ReducerOptions options;
  options.policy = ProgressPolicy::kThread;
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) {
        return GradientReducer::Make(comm, SomeGradients(), options).status();
      });
  EXPECT_MESSAGE(status, absl::StatusCode::kUnimplemented);
}

TEST(StreamReducer, AStreamWithoutADeviceIsInvalid) {
  ReducerOptions options;
  options.policy = ProgressPolicy::kStream;
  const absl::Status status = RunRanks(2, [&](Communicator& comm) {
    return GradientReducer::Make(comm, SomeGradients(), options).status();
  });
  EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument);
}

// NCCL itself waits for a peer that stands still.
TEST(StreamReducer, WaitsAskWhetherPeersLive) {
  std::atomic<bool> told = false;
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
        return ExpectLostWhile(Phase::kWaiting, comm, SomeGradients(), {}, told);
      });
  EXPECT_TRUE(status.ok()) << status;
}

// It is in the middle of a step: its peer's sum cannot end, and the peer learns who it waited for.
// Also where NCCL does not notice, as over NVLink.
void ExpectThatALeaverEndsThePeersWait(const ReducerOptions& options) {
  std::atomic<bool> told = false;
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
        MILLRACE_ASSIGN_OR_RETURN(auto reducer,
                                  GradientReducer::Make(comm, SomeGradients(), options));
        reducer->SetRows(1);
        if (comm.rank() == 1) {
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
          reducer.reset();
          MILLRACE_RETURN_IF_ERROR(AwaitUntil([&] { return told.load(); }));
          return absl::OkStatus();
        }
        absl::Status outcome = MarkAll(*reducer, SomeGradients().size());
        if (outcome.ok()) outcome = reducer->Finish();
        const absl::Status later = reducer->MarkReady(0);
        told = true;
        const std::optional<PeerLost> lost = PeerLostOf(outcome);
        if (!absl::IsUnavailable(outcome) || !lost.has_value()) return Fail(outcome.ToString());
        if (lost->rank != 1 || lost->phase != Phase::kBackward) return Fail(outcome.ToString());
        return later == outcome ? absl::OkStatus() : Fail(later.ToString());
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StreamReducer, ARankThatLeavesEndsThePeersWait) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  ReducerOptions averaged = SmallBuckets();
  averaged.average_by_rows = true;
  averaged.clip_norm = 1;
  ReducerOptions exact = SmallBuckets();
  exact.exact = true;
  ReducerOptions sharded = SmallBuckets();
  sharded.shard = true;
  sharded.wire = DType::kF16;
  for (const bool notice : {true, false}) {
    control.peers_notice = notice;
    for (const ReducerOptions& options : {SmallBuckets(), averaged, exact, sharded}) {
      ExpectThatALeaverEndsThePeersWait(options);
    }
  }
  control.peers_notice = true;
}

TEST(StreamReducer, TheEndOfAReducerLeavesTheCommunicator) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) -> absl::Status {
        for (int turn = 0; turn < 3; ++turn) {
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), SmallBuckets()));
          MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        }
        return comm.Barrier();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
