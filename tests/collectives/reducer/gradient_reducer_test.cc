// The reducer over hosts that are told apart by PrivateReducerOptions::host.
#include "collectives/gradient_reducer.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "collectives/reducer/make_reducer.h"
#include "gmock/gmock.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {
namespace {

// `check` on every layout, each with its hosts.
void RunOnAll(const CheckOfOptions& check) {
  for (const Layout& layout : kLayouts) {
    RunOn(layout, [&check](Communicator& comm, int host) {
      PrivateReducerOptions options;
      options.host = host;
      return check(comm, options, MakeOwned);
    });
  }
}

TEST(GradientReducer, SumsOverEveryLayoutAndPolicy) {
  for (const Layout& layout : kLayouts) {
    for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
      for (const bool exact : {false, true}) {
        RunOn(layout, [&](Communicator& comm, int host) -> absl::Status {
          PrivateReducerOptions options = SmallBuckets();
          options.policy = policy;
          options.exact = exact;
          options.host = host;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    MakePlanned(comm, SomeGradients(), options));
          std::vector<size_t> order(SomeGradients().size());
          std::iota(order.begin(), order.end(), 0);
          std::mt19937 random(comm.rank());
          for (int step = 0; step < 20; ++step) {
            MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, step));
            std::shuffle(order.begin(), order.end(), random);
          }
          return comm.Barrier();
        });
      }
    }
  }
}

TEST(GradientReducer, ExactSumsHaveTheBitsOfAFlatSumOnEveryLayout) {
  RunOnAll([](Communicator& comm, PrivateReducerOptions options, const MakeReducer& make) {
    options.exact = true;
    return CheckFlatSums(comm, options, make);
  });
}

// One host: the same bits without asking for them.
TEST(GradientReducer, OneHostSumsInRankOrder) {
  RunOn({0, 0, 0, 0, 0}, [](Communicator& comm, int host) {
    PrivateReducerOptions options;
    options.host = host;
    return CheckFlatSums(comm, options, MakeOwned);
  });
}

TEST(GradientReducer, MemoryOfTheCallersHasTheBitsOfBucketsOnEveryLayout) {
  for (const Layout& layout : kLayouts) {
    for (const bool shard : {false, true}) {
      RunOn(layout, [shard](Communicator& comm, int host) {
        PrivateReducerOptions options;
        options.bucket_bytes = 500000;
        options.host = host;
        options.shard = shard;
        options.clip_norm = 1;
        options.policy = shard ? ProgressPolicy::kThread : ProgressPolicy::kInline;
        return CompareUserBuffersWithOwned(comm, options);
      });
    }
  }
}

TEST(GradientReducer, SaysHowTheCallersMemoryIsReduced) {
  for (const Layout& layout : {Layout{0, 0}, Layout{0, 1}}) {
    RunOn(layout, [&layout](Communicator& comm, int host) -> absl::Status {
      PrivateReducerOptions options;
      options.host = host;
      UserGradients memory({{"a", {9}}});
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                MakePlanned(comm, {{"a", {9}}}, memory.views(), options));
      const std::string expected = layout[1] == 0 ? "in the caller's memory, summed through slots"
                                                  : "in the caller's memory, copied to buckets";
      return reducer->Summary().find(expected) != std::string::npos ? absl::OkStatus()
                                                                    : Fail(reducer->Summary());
    });
  }
}

TEST(GradientReducer, SumsBetweenHostsAreTheSameOnEveryRankAndNear) {
  for (const DType wire : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Layout& layout : kLayouts) {
      std::vector<std::vector<float>> sums(layout.size());
      RunOn(layout, [&](Communicator& comm, int host) -> absl::Status {
        PrivateReducerOptions options;
        options.host = host;
        options.wire = wire;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {3001}}}, options));
        MILLRACE_RETURN_IF_ERROR(FillAndReduce(*reducer, 1, comm.rank()));
        const auto values = reducer->gradient(0).as<float>();
        sums[comm.rank()].assign(values.begin(), values.end());
        return comm.Barrier();
      });
      const float tolerance = wire == DType::kF32 ? 1e-5f : wire == DType::kF16 ? 1e-2f : 1e-1f;
      for (size_t i = 0; i < sums[0].size(); ++i) {
        double sum = 0;
        for (size_t r = 0; r < layout.size(); ++r) sum += Noise(static_cast<int>(r), 0, i);
        ASSERT_NEAR(sums[0][i], sum, tolerance);
      }
      for (const std::vector<float>& other : sums) EXPECT_EQ(other, sums[0]);
    }
  }
}

TEST(GradientReducer, RaggedBatchesAreAveragedByTheRowsOfAllRanks) {
  for (const bool exact : {false, true}) {
    RunOnAll([exact](Communicator& comm, PrivateReducerOptions options, const MakeReducer& make) {
      options.exact = exact;
      return CheckRaggedBatches(comm, options, make);
    });
  }
}

TEST(GradientReducer, ABatchWithoutRowsIsNotDividedByZero) {
  RunOn({0, 0}, [](Communicator& comm, int host) -> absl::Status {
    PrivateReducerOptions options;
    options.host = host;
    options.average_by_rows = true;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"a", {5}}}, options));
    reducer->SetRows(0);
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    return reducer->gradient(0).as<float>()[0] == 0 ? absl::OkStatus() : Fail("not zero");
  });
}

TEST(GradientReducer, AllRanksSkipTheStepThatIsNotFiniteOnOne) { RunOnAll(CheckSkippedSteps); }

TEST(GradientReducer, TheClipFactorLimitsTheNormOfAllGradients) { RunOnAll(CheckClipFactor); }

TEST(GradientReducer, MicroBatchesAddUpBeforeRanksDo) { RunOnAll(CheckMicroBatches); }

TEST(GradientReducer, ShardsAreSummedByOneRankEachAndGathered) {
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    RunOnAll([wire](Communicator& comm, PrivateReducerOptions options, const MakeReducer& make) {
      options.wire = wire;
      return CheckShards(comm, options, make);
    });
  }
}

TEST(GradientReducer, ShardsOfAllRanksAreAllElementsOnce) {
  for (const Layout& layout : kLayouts) {
    std::atomic<int64_t> elements = 0;
    int64_t wanted = 0;
    for (const GradientSpec& spec : SomeGradients()) wanted += spec.shape.num_elements();
    RunOn(layout, [&elements](Communicator& comm, int host) -> absl::Status {
      PrivateReducerOptions options = SmallBuckets();
      options.host = host;
      options.shard = true;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
      for (const GradientShard& s : reducer->shards()) {
        elements += static_cast<int64_t>(s.end - s.begin);
      }
      return comm.Barrier();
    });
    EXPECT_EQ(elements, wanted);
  }
}

}  // namespace
}  // namespace millrace::collectives
