// The reducer over hosts that are told apart by ReducerOptions::host.
#include "collectives/gradient_reducer.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "gmock/gmock.h"
#include "tests/collectives/reducer_steps.h"

namespace millrace::collectives {
namespace {

absl::Status FillAndReduce(GradientReducer& reducer, size_t count, int rank) {
  for (size_t g = 0; g < count; ++g) {
    const TensorView view = reducer.gradient(g);
    for (size_t i = 0; i < CountOf(view); ++i) Put(view, i, Noise(rank, g, i));
    MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  return reducer.Finish();
}

TEST(GradientReducer, SumsOverEveryLayoutAndPolicy) {
  for (const Layout& layout : kLayouts) {
    for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
      for (const bool exact : {false, true}) {
        RunOn(layout, [&](Communicator& comm, int host) -> absl::Status {
          ReducerOptions options = SmallBuckets();
          options.policy = policy;
          options.exact = exact;
          options.host = host;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), options));
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

// The oracle adds in ascending rank order, whatever hosts the ranks are on.
// A step's sums have the bits of one addition after the other in the order of ranks.
absl::Status CheckFlatSums(Communicator& comm, const ReducerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                            GradientReducer::Make(comm, MixedGradients(), options));
  MILLRACE_RETURN_IF_ERROR(FillAndReduce(*reducer, MixedGradients().size(), comm.rank()));
  for (size_t g = 0; g < MixedGradients().size(); ++g) {
    const TensorView view = reducer->gradient(g);
    for (size_t i = 0; i < CountOf(view); ++i) {
      float sum = Rounded(view.dtype, Noise(0, g, i));
      for (int r = 1; r < comm.size(); ++r) sum += Rounded(view.dtype, Noise(r, g, i));
      if (Get(view, i) != Rounded(view.dtype, sum)) return Fail("bits");
    }
  }
  return comm.Barrier();
}

TEST(GradientReducer, ExactSumsHaveTheBitsOfAFlatSumOnEveryLayout) {
  for (const Layout& layout : kLayouts) {
    RunOn(layout, [](Communicator& comm, int host) {
      ReducerOptions options;
      options.exact = true;
      options.host = host;
      return CheckFlatSums(comm, options);
    });
  }
}

// One host: the same bits without asking for them.
TEST(GradientReducer, OneHostSumsInRankOrder) {
  RunOn({0, 0, 0, 0, 0}, [](Communicator& comm, int host) {
    ReducerOptions options;
    options.host = host;
    return CheckFlatSums(comm, options);
  });
}

TEST(GradientReducer, MemoryOfTheCallersHasTheBitsOfBucketsOnEveryLayout) {
  for (const Layout& layout : kLayouts) {
    for (const bool shard : {false, true}) {
      RunOn(layout, [shard](Communicator& comm, int host) {
        ReducerOptions options;
        options.bucket_bytes = 500000;
        options.host = host;
        options.shard = shard;
        options.clip_norm = 1;
        options.policy = shard ? ProgressPolicy::kThread : ProgressPolicy::kInline;
        return CompareForeignWithOwned(comm, options);
      });
    }
  }
}

TEST(GradientReducer, SaysHowTheCallersMemoryIsReduced) {
  for (const Layout& layout : {Layout{0, 0}, Layout{0, 1}}) {
    RunOn(layout, [&layout](Communicator& comm, int host) -> absl::Status {
      ReducerOptions options;
      options.host = host;
      ForeignGradients memory({{"a", {9}}});
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                GradientReducer::Make(comm, {{"a", {9}}}, memory.views(), options));
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
        ReducerOptions options;
        options.host = host;
        options.wire = wire;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, {{"g", {3001}}}, options));
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
  for (const Layout& layout : kLayouts) {
    for (const bool exact : {false, true}) {
      RunOn(layout, [exact](Communicator& comm, int host) -> absl::Status {
        ReducerOptions options = SmallBuckets();
        options.exact = exact;
        options.host = host;
        options.average_by_rows = true;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, {{"a", {600}}, {"b", {9}}}, options));
        for (int step = 0; step < 3; ++step) {
          if (!absl::IsFailedPrecondition(reducer->MarkReady(0))) return Fail("no rows were set");
          reducer->SetRows(comm.rank() + step);
          int64_t rows = 0;
          for (int r = 0; r < comm.size(); ++r) rows += r + step;
          for (size_t g = 0; g < 2; ++g) {
            // Of each row the gradient 6.
            for (float& v : reducer->gradient(g).as<float>()) v = 6.0f * (comm.rank() + step);
            MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
          }
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          if (reducer->outcome().rows != rows) return Fail("rows");
          for (const float v : reducer->gradient(0).as<float>()) {
            if (v != 6) return Fail(absl::StrCat("average ", v));
          }
        }
        return comm.Barrier();
      });
    }
  }
}

TEST(GradientReducer, ABatchWithoutRowsIsNotDividedByZero) {
  RunOn({0, 0}, [](Communicator& comm, int host) -> absl::Status {
    ReducerOptions options;
    options.host = host;
    options.average_by_rows = true;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, {{"a", {5}}}, options));
    reducer->SetRows(0);
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    return reducer->gradient(0).as<float>()[0] == 0 ? absl::OkStatus() : Fail("not zero");
  });
}

TEST(GradientReducer, AllRanksSkipTheStepThatIsNotFiniteOnOne) {
  for (const Layout& layout : kLayouts) {
    RunOn(layout, [](Communicator& comm, int host) -> absl::Status {
      ReducerOptions options = SmallBuckets();
      options.host = host;
      options.skip_non_finite = true;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                GradientReducer::Make(comm, SomeGradients(), options));
      for (int step = 0; step < 6; ++step) {
        for (size_t g = 0; g < SomeGradients().size(); ++g) {
          const auto values = reducer->gradient(g).as<float>();
          std::fill(values.begin(), values.end(), 1.0f);
          // One value of one rank, another gradient each time.
          if (step % 2 == 1 && comm.rank() == step % comm.size() && g == 2u + step % 3 &&
              !values.empty()) {
            values.back() = step == 1 ? std::nanf("") : std::numeric_limits<float>::infinity();
          }
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
        }
        MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        const bool bad = step == 1 || step == 3 || step == 5;
        const bool empty = 2u + step % 3 == 4;  // "empty" has no value to be bad
        if (reducer->outcome().skip != (bad && !empty)) return Fail(absl::StrCat("step ", step));
      }
      return comm.Barrier();
    });
  }
}

TEST(GradientReducer, TheClipFactorLimitsTheNormOfAllGradients) {
  for (const Layout& layout : kLayouts) {
    RunOn(layout, [](Communicator& comm, int host) -> absl::Status {
      ReducerOptions options = SmallBuckets();
      options.host = host;
      options.clip_norm = 10;
      MILLRACE_ASSIGN_OR_RETURN(
          const auto reducer,
          GradientReducer::Make(comm, {{"a", {900}}, {"b", {700}}, {"c", {0}}}, options));
      for (const float value : {2.0f, 0.0f, 0.001f}) {
        for (size_t g = 0; g < 3; ++g) {
          const auto values = reducer->gradient(g).as<float>();
          std::fill(values.begin(), values.end(), value);
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
        }
        MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        const double norm = 40.0 * comm.size() * value;  // of 1600 equal values
        const StepOutcome& outcome = reducer->outcome();
        if (std::abs(outcome.norm - norm) > 1e-6 * norm) return Fail("norm");
        const double factor = norm > 10 ? 10 / norm : 1;
        if (std::abs(outcome.clip_factor - factor) > 1e-6) return Fail("factor");
      }
      return comm.Barrier();
    });
  }
}

TEST(GradientReducer, MicroBatchesAddUpBeforeRanksDo) {
  for (const Layout& layout : kLayouts) {
    RunOn(layout, [](Communicator& comm, int host) -> absl::Status {
      ReducerOptions options = SmallBuckets();
      options.host = host;
      options.micro_batches = 3;
      options.average_by_rows = true;
      const std::vector<GradientSpec> specs = {{"a", {100}}, {"b", {50}, DType::kBF16}};
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, specs, options));
      for (int step = 0; step < 2; ++step) {
        for (int micro = 0; micro < 3; ++micro) {
          reducer->SetRows(1);
          for (size_t g = 0; g < 2; ++g) {
            const TensorView view = reducer->gradient(g);
            for (size_t i = 0; i < CountOf(view); ++i) Put(view, i, 3.0f * (micro + 1));
            MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
          }
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          if (reducer->outcome().complete != (micro == 2)) return Fail("complete");
        }
        if (reducer->outcome().rows != 3 * comm.size()) return Fail("rows");
        for (size_t g = 0; g < 2; ++g) {
          if (Get(reducer->gradient(g), 7) != 6) return Fail("the average of 3, 6 and 9");
        }
      }
      return comm.Barrier();
    });
  }
}

// Every element is in one rank's shards; there it is the sum, and after GatherShards everybody has what
// its owner has made of it.
TEST(GradientReducer, ShardsAreSummedByOneRankEachAndGathered) {
  for (const Layout& layout : kLayouts) {
    for (const DType wire : {DType::kF32, DType::kBF16}) {
      RunOn(layout, [wire](Communicator& comm, int host) -> absl::Status {
        ReducerOptions options = SmallBuckets();
        options.host = host;
        options.shard = true;
        options.wire = wire;
        options.clip_norm = 1;
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, MixedGradients(), options));
        const int size = comm.size();
        for (int step = 0; step < 3; ++step) {
          double squares = 0;
          for (size_t g = 0; g < MixedGradients().size(); ++g) {
            const TensorView view = reducer->gradient(g);
            for (size_t i = 0; i < CountOf(view); ++i) {
              Put(view, i, static_cast<float>(1 + i % 3));
              squares += size * size * static_cast<double>((1 + i % 3) * (1 + i % 3));
            }
            MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
          }
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          if (std::abs(reducer->outcome().norm - std::sqrt(squares)) > 1e-6) return Fail("norm");
          for (const GradientShard& shard : reducer->shards()) {
            const TensorView view = reducer->gradient(shard.gradient);
            for (size_t i = shard.begin; i < shard.end; ++i) {
              if (Get(view, i) != static_cast<float>(size * (1 + i % 3))) return Fail("sum");
              Put(view, i, -static_cast<float>(i % 7 + step));  // the new weight
            }
          }
          MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
          for (size_t g = 0; g < MixedGradients().size(); ++g) {
            const TensorView view = reducer->gradient(g);
            for (size_t i = 0; i < CountOf(view); ++i) {
              if (Get(view, i) != -static_cast<float>(i % 7 + step)) return Fail("weight");
            }
          }
        }
        return comm.Barrier();
      });
    }
  }
}

TEST(GradientReducer, ShardsOfAllRanksAreAllElementsOnce) {
  for (const Layout& layout : kLayouts) {
    std::atomic<int64_t> elements = 0;
    int64_t wanted = 0;
    for (const GradientSpec& spec : SomeGradients()) wanted += spec.shape.num_elements();
    RunOn(layout, [&elements](Communicator& comm, int host) -> absl::Status {
      ReducerOptions options = SmallBuckets();
      options.host = host;
      options.shard = true;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                GradientReducer::Make(comm, SomeGradients(), options));
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
