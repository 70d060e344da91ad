// Reducers that one thread of a rank uses at once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "gmock/gmock.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/collectives/tcp/tcp_ranks.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::seconds kForEver{60};  // of a wait that would be

PrivateReducerOptions OfTeam(int host, ReducerTeam* team) {
  PrivateReducerOptions options = SmallBuckets();
  options.host = host;
  options.team = team;
  return options;
}

TEST(ReducerTeam, MayBeFinishedInUnlikeOrders) {
  RunOn({0, 0, 0}, [](Communicator& comm, int host) {
    ReducerTeam team;
    return FinishTwoInUnlikeOrders(comm, OfTeam(host, &team));
  });
}

TEST(ReducerTeam, IsWhatMakesUnlikeOrdersPossible) {
  std::vector<absl::StatusCode> codes(3);
  (void)RunRanks(3, [&codes](Communicator& comm) {
    comm.set_timeout(std::chrono::milliseconds(1000));
    const absl::Status status = FinishTwoInUnlikeOrders(comm, OfTeam(0, nullptr));
    codes[comm.rank()] = status.code();
    return status;
  });
  // The first that gives up ends the waits of the others.
  EXPECT_THAT(codes, testing::Contains(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(codes, testing::Not(testing::Contains(absl::StatusCode::kOk)));
}

TEST(ReducerTeam, AMemberWithAThreadGoesOnByItself) {
  RunOn({0, 0, 0}, [](Communicator& comm, int host) {
    ReducerTeam team;
    return FinishTwoInUnlikeOrders(comm, OfTeam(host, &team), ProgressPolicy::kThread);
  });
}

// The norm takes an exchange of its own at a step's end.
TEST(ReducerTeam, WorksBetweenHostsWithShardsAndTheNorm) {
  RunOn({0, 1}, [](Communicator& comm, int host) -> absl::Status {
    ReducerTeam team;
    PrivateReducerOptions options;
    options.host = host;
    options.team = &team;
    options.shard = true;
    options.clip_norm = 1;
    MILLRACE_ASSIGN_OR_RETURN(const auto one, MakePlanned(comm, {{"a", {1000}}}, options));
    MILLRACE_ASSIGN_OR_RETURN(const auto two, MakePlanned(comm, {{"b", {1000}}}, options));
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

// Each host's stripe waits for the others' of another reducer.
TEST(ReducerTeam, WorksBetweenHosts) {
  for (const bool exact : {false, true}) {
    RunOn({0, 1, 2}, [exact](Communicator& comm, int host) {
      comm.set_timeout(kForEver);
      ReducerTeam team;
      PrivateReducerOptions options = OfTeam(host, &team);
      options.exact = exact;
      return FinishTwoInUnlikeOrders(comm, options);
    });
  }
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

absl::StatusOr<GridAxis> MakeGridAxis(Communicator& job, std::vector<int> ranks,
                                      const PrivateReducerOptions& options) {
  GridAxis axis;
  axis.ranks = std::move(ranks);
  MILLRACE_ASSIGN_OR_RETURN(axis.comm, job.Split(axis.ranks[0], job.rank()));
  axis.comm->set_timeout(kForEver);
  MILLRACE_ASSIGN_OR_RETURN(axis.reducer, MakePlanned(*axis.comm, SomeGradients(), options));
  return axis;
}

// Ranks 0 1
//       2 3. Each waits for its neighbour in its row or its column first, which waits in the other
// reducer: 0 for 1, 1 for 3, 3 for 2, 2 for 0. Before that the ranks mark in an order of their own
// each.
absl::Status StepsOfAGrid(Communicator& job, const PrivateReducerOptions& options) {
  const int rank = job.rank();
  const int top = rank % 2;
  const int left = rank - top;
  MILLRACE_ASSIGN_OR_RETURN(const GridAxis row, MakeGridAxis(job, {left, left + 1}, options));
  MILLRACE_ASSIGN_OR_RETURN(const GridAxis column, MakeGridAxis(job, {top, top + 2}, options));
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

void ExpectStepsOfAGrid(bool tcp, bool one_host, bool exact) {
  const RankBody body = [&](Communicator& job) {
    ReducerTeam team;
    PrivateReducerOptions options = OfTeam(one_host ? 0 : job.rank(), &team);
    options.policy = ProgressPolicy::kInline;
    options.exact = exact;
    return StepsOfAGrid(job, options);
  };
  const absl::Status status = tcp ? RunTcpRanks(4, body) : RunRanks(4, body);
  EXPECT_TRUE(status.ok()) << status << "; TCP " << tcp << ", one host " << one_host << ", exact "
                           << exact;
}

TEST(ReducerTeam, FinishesTheRowsAndColumnsOfAGridInUnlikeOrders) {
  for (const bool tcp : {false, true}) {
    ExpectStepsOfAGrid(tcp, /*one_host=*/true, /*exact=*/false);
    for (const bool exact : {false, true}) ExpectStepsOfAGrid(tcp, /*one_host=*/false, exact);
  }
}

}  // namespace
}  // namespace millrace::collectives
