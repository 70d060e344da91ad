#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_HOSTS_CONFORMANCE_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_HOSTS_CONFORMANCE_H_

// What the gradient reducer must do between hosts over every backend whose ranks can play hosts
// (PrivateReducerOptions::host).

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {

class ReducerHostsConformance : public CommunicatorConformance {
 protected:
  // In each of the layouts for so many ranks as there are.
  void ForLayouts(const std::function<absl::Status(Communicator&, const Layout&)>& body) {
    for (const Layout& layout : kLayouts) {
      RunOk([&](Communicator& comm) {
        if (layout.size() != static_cast<size_t>(comm.size())) return absl::OkStatus();
        return Annotate(body(comm, layout), absl::StrCat("hosts ", absl::StrJoin(layout, ", ")));
      });
    }
  }
};

// Valid rows of rank `rank`: others on each, 16 on all together, so that averages are exact.
inline int64_t SomeRows(int rank, int size) {
  return rank > 0 ? rank + 1 : 16 - size * (size + 1) / 2 + 1;
}

// The elements of `part` must be the serial sums of `step`, or their average by rows.
inline absl::Status CheckSums(const Communicator& comm, GradientReducer& reducer,
                              const GradientShard& part, int step, bool average) {
  const std::span<const float> values = reducer.gradient(part.gradient).as<float>();
  for (size_t i = part.begin; i < part.end; ++i) {
    double sum = 0;
    for (int r = 0; r < comm.size(); ++r) sum += GradientValue(r, part.gradient, i, step);
    if (average) sum /= 16;
    if (values[i] == sum) continue;
    return Fail(absl::StrCat("gradient ", part.gradient, " element ", i, " is ", values[i],
                             ", not ", sum, " in step ", step));
  }
  return absl::OkStatus();
}

// A step whose gradients are marked in `order`: first the own shards must be right, then all.
inline absl::Status CheckedStep(Communicator& comm, GradientReducer& reducer,
                                const PrivateReducerOptions& options,
                                const std::vector<size_t>& order, int step) {
  if (options.average_by_rows) reducer.SetRows(SomeRows(comm.rank(), comm.size()));
  for (const size_t g : order) {
    const std::span<float> gradient = reducer.gradient(g).as<float>();
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<float>(GradientValue(comm.rank(), g, i, step));
    }
    MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  MILLRACE_RETURN_IF_ERROR(reducer.Finish());
  if (options.average_by_rows && reducer.outcome().rows != 16) return Fail("rows");
  for (const GradientShard& shard : reducer.shards()) {
    MILLRACE_RETURN_IF_ERROR(CheckSums(comm, reducer, shard, step, options.average_by_rows));
  }
  MILLRACE_RETURN_IF_ERROR(reducer.GatherShards());
  for (const size_t g : order) {
    const GradientShard whole = {g, 0, CountOf(reducer.gradient(g))};
    MILLRACE_RETURN_IF_ERROR(CheckSums(comm, reducer, whole, step, options.average_by_rows));
  }
  return absl::OkStatus();
}

inline std::vector<PrivateReducerOptions> KindsOfSums() {
  std::vector<PrivateReducerOptions> kinds(8, SmallBuckets());
  kinds[1].exact = true;
  kinds[2].wire = DType::kBF16;
  kinds[3].shard = true;
  kinds[4].average_by_rows = true;
  kinds[5].shard = kinds[5].average_by_rows = true;
  kinds[6].exact = kinds[6].average_by_rows = true;
  kinds[7].policy = ProgressPolicy::kThread;  // between hosts over MPI, asked for in vain
  return kinds;
}

TEST_P(ReducerHostsConformance, SumsEqualTheSerialOnesInEveryLayout) {
  for (const PrivateReducerOptions& kind : KindsOfSums()) {
    ForLayouts([&kind](Communicator& comm, const Layout& layout) -> absl::Status {
      PrivateReducerOptions options = kind;
      options.host = layout[comm.rank()];
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
      std::vector<size_t> order(SomeGradients().size());
      std::iota(order.begin(), order.end(), 0);
      std::mt19937 random(comm.rank() + 1);  // another order on every rank
      for (int step = 0; step < 6; ++step) {
        MILLRACE_RETURN_IF_ERROR(CheckedStep(comm, *reducer, options, order, step));
        std::shuffle(order.begin(), order.end(), random);
      }
      return comm.Barrier();
    });
  }
}

// Sums come out right where it is not shared, too.
TEST_P(ReducerHostsConformance, ProcessesOfAHostShareMemory) {
  RunOk([](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                              GradientReducer::Make(comm, SomeGradients(), SmallBuckets()));
    const std::string shared = absl::StrCat("; ", comm.size(), " ranks of this host share memory");
    const std::string summary = reducer->Summary();
    const bool says = absl::StrContains(summary, shared);
    if (says != (comm.size() > 1)) return Fail(summary);
    if (absl::StrContains(summary, "memory is not shared")) return Fail(summary);
    return comm.Barrier();
  });
}

TEST_P(ReducerHostsConformance, WithoutSharedMemoryEveryRankIsAHost) {
  for (const PrivateReducerOptions& kind : KindsOfSums()) {
    RunOk([&kind](Communicator& comm) -> absl::Status {
      PrivateReducerOptions options = kind;
      options.shared_memory = false;
      MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
      std::vector<size_t> order(SomeGradients().size());
      std::iota(order.begin(), order.end(), 0);
      for (int step = 0; step < 3; ++step) {
        MILLRACE_RETURN_IF_ERROR(CheckedStep(comm, *reducer, options, order, step));
      }
      return comm.Barrier();
    });
  }
}

// 257 takes one bit more than bfloat16 has.
TEST_P(ReducerHostsConformance, SumsOfHostsAreRoundedOnTheWire) {
  ForLayouts([](Communicator& comm, const Layout& layout) -> absl::Status {
    const int hosts = static_cast<int>(std::set<int>(layout.begin(), layout.end()).size());
    PrivateReducerOptions options;
    options.host = layout[comm.rank()];
    options.wire = DType::kBF16;
    MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"a", {600}}}, options));
    for (float& value : reducer->gradient(0).as<float>()) value = 257;
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    float sum = 0;
    for (int host = 0; host < hosts; ++host) {
      const auto ranks = static_cast<float>(std::ranges::count(layout, host));
      sum += Rounded(DType::kBF16, 257.0f * ranks);
    }
    const float expected =
        hosts > 1 ? Rounded(DType::kBF16, sum) : 257.0f * static_cast<float>(comm.size());
    for (const float value : reducer->gradient(0).as<float>()) {
      if (value != expected) return Fail(absl::StrCat(value, " is not ", expected));
    }
    return comm.Barrier();
  });
}

// Whole numbers have the same sum in any order; these have not.
TEST_P(ReducerHostsConformance, ExactSumsHaveTheBitsOfAFlatSumInEveryLayout) {
  ForLayouts([](Communicator& comm, const Layout& layout) {
    PrivateReducerOptions options;
    options.exact = true;
    options.host = layout[comm.rank()];
    return CheckFlatSums(comm, options, MakeOwned);
  });
}

TEST_P(ReducerHostsConformance, StepsAreSkippedClippedAndMadeOfMicroBatchesInEveryLayout) {
  for (const bool exact : {false, true}) {
    ForLayouts([exact](Communicator& comm, const Layout& layout) -> absl::Status {
      PrivateReducerOptions options;
      options.exact = exact;
      options.host = layout[comm.rank()];
      MILLRACE_RETURN_IF_ERROR(CheckSkippedSteps(comm, options, MakeOwned));
      MILLRACE_RETURN_IF_ERROR(CheckClipFactor(comm, options, MakeOwned));
      return CheckMicroBatches(comm, options, MakeOwned);
    });
  }
}

TEST_P(ReducerHostsConformance, ShardsAreSummedByOneRankEachAndGathered) {
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    ForLayouts([wire](Communicator& comm, const Layout& layout) {
      PrivateReducerOptions options;
      options.wire = wire;
      options.host = layout[comm.rank()];
      return CheckShards(comm, options, MakeOwned);
    });
  }
}

TEST_P(ReducerHostsConformance, GradientsInTheCallersMemoryHaveTheSameBits) {
  ForLayouts([](Communicator& comm, const Layout& layout) -> absl::Status {
    PrivateReducerOptions options;
    options.bucket_bytes = 500000;
    options.host = layout[comm.rank()];
    MILLRACE_RETURN_IF_ERROR(CompareUserBuffersWithOwned(comm, options));
    options.shard = true;
    return CompareUserBuffersWithOwned(comm, options);
  });
}

TEST_P(ReducerHostsConformance, ATeamIsFinishedInUnlikeOrders) {
  for (const bool exact : {false, true}) {
    ForLayouts([exact](Communicator& comm, const Layout& layout) {
      ReducerTeam team;
      PrivateReducerOptions options;
      options.exact = exact;
      options.host = layout[comm.rank()];
      options.team = &team;
      return FinishTwoInUnlikeOrders(comm, SmallBuckets(options));
    });
  }
}

// As layers do that need sums of their own: behind each gradient, on the caller's thread.
inline absl::Status ExchangeAmidSteps(Communicator& comm, PrivateReducerOptions options) {
  options.policy = ProgressPolicy::kThread;
  options.caller_communicates = true;
  MILLRACE_ASSIGN_OR_RETURN(const auto group, comm.Split(0, comm.rank()));
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, SomeGradients(), options));
  const double expected = comm.size() * (comm.size() + 1) / 2.0;
  for (int step = 0; step < 10; ++step) {
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      const std::span<float> gradient = reducer->gradient(g).as<float>();
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>(GradientValue(comm.rank(), g, i, step));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
      double sum = comm.rank() + 1;
      MILLRACE_RETURN_IF_ERROR(group->AllReduce({&sum, DType::kF64, Shape{1}}, ReduceOp::kSum));
      if (sum != expected) return Fail(absl::StrCat("sum ", sum, " in step ", step));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      const GradientShard whole = {g, 0, CountOf(reducer->gradient(g))};
      MILLRACE_RETURN_IF_ERROR(CheckSums(comm, *reducer, whole, step, /*average=*/false));
    }
  }
  return comm.Barrier();
}

TEST_P(ReducerHostsConformance, TheCallerMayExchangeAmidSteps) {
  for (const bool exact : {false, true}) {
    ForLayouts([exact](Communicator& comm, const Layout& layout) {
      PrivateReducerOptions options;
      options.exact = exact;
      options.host = layout[comm.rank()];
      return ExchangeAmidSteps(comm, SmallBuckets(options));
    });
  }
}

TEST_P(ReducerHostsConformance, LateSumsComeInTheirSteps) {
  for (const PrivateReducerOptions& kind : KindsOfSums()) {
    if (kind.shard || kind.average_by_rows) continue;
    ForLayouts([&kind](Communicator& comm, const Layout& layout) {
      PrivateReducerOptions options = kind;
      options.host = layout[comm.rank()];
      return CheckLateSums(comm, options);
    });
  }
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_HOSTS_CONFORMANCE_H_
