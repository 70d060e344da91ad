// What the reducer's sums between hosts are made of: how they round, how many messages follow each
// other, and how many bytes each rank sends (the table "Gradient reducer" of
// collectives/ALGORITHMS.md).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "gmock/gmock.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/leaping_clock.h"
#include "tests/collectives/lost_while.h"
#include "tests/collectives/messages/memory_transport.h"
#include "tests/collectives/reducer/awaited_bucket.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/collectives/tcp/tcp_ranks.h"

namespace millrace::collectives {
namespace {

using testing::Each;

// Ranks are dealt to the hosts by turns.
struct Hosts {
  int num_hosts = 1;
  int ranks_each = 1;

  int size() const { return num_hosts * ranks_each; }
  int HostOf(int rank) const { return rank % num_hosts; }
  int StripeOf(int rank) const { return rank / num_hosts; }
};

// Small sums are gathered by every rank, large ones are made in shares.
void ExpectFloat32Sums(const std::function<absl::Status(int size, const RankBody&)>& run) {
  for (const DType rounded : {DType::kBF16, DType::kF16}) {
    for (const Hosts& hosts : {Hosts{5, 1}, Hosts{5, 2}}) {
      for (const bool wired : {true, false}) {
        for (const bool shard : {false, true}) {
          for (const int64_t elements : {100, 40000}) {
            const GradientSpec spec = {"g", {elements}, wired ? DType::kF32 : rounded};
            PrivateReducerOptions options;
            options.wire = wired ? rounded : DType::kF32;
            options.shard = shard;
            const absl::Status status = run(hosts.size(), [&](Communicator& comm) {
              const bool adds = hosts.StripeOf(comm.rank()) == 0;
              PrivateReducerOptions own = options;
              own.host = hosts.HostOf(comm.rank());
              return SumOnesAndALargeNumber(comm, hosts.num_hosts, adds, rounded, spec, own,
                                            MakeOwned);
            });
            EXPECT_TRUE(status.ok()) << status << "; " << Name(rounded) << ", " << elements
                                     << " elements, wired " << wired << ", shard " << shard;
          }
        }
      }
    }
  }
}

TEST(ReducerBetweenHosts, SixteenBitsOnTheWireAreAddedInFloat32ByThreads) {
  ExpectFloat32Sums([](int size, const RankBody& body) { return RunRanks(size, body); });
}

TEST(ReducerBetweenHosts, SixteenBitsOnTheWireAreAddedInFloat32OverMessages) {
  ExpectFloat32Sums([](int size, const RankBody& body) {
    return RunMemoryRanks(*MemoryNetwork::Make(size), size, body);
  });
}

TEST(ReducerBetweenHosts, SixteenBitsOnTheWireAreAddedInFloat32OverTcp) {
  for (const DType wire : {DType::kBF16, DType::kF16}) {
    const absl::Status status = RunTcpRanks(5, [wire](Communicator& comm) {
      PrivateReducerOptions options;
      options.host = comm.rank();
      options.wire = wire;
      return SumOnesAndALargeNumber(comm, 5, true, wire, {"g", {40000}}, options, MakeOwned);
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Two hosts of two ranks each; both ranks of the second come when one of the first is said to wait
// for its stripe's.
TEST(ReducerBetweenHosts, TheRankOfAnotherHostThatIsAwaitedIsSaid) {
  const Hosts hosts = {2, 2};
  constexpr int kOfSecondStripe = 2;  // of host 0
  PrivateReducerOptions exact;
  exact.exact = true;
  PrivateReducerOptions averaged = exact;
  averaged.average_by_rows = true;
  for (const PrivateReducerOptions& kind : {PrivateReducerOptions(), exact, averaged}) {
    AwaitedBucket watch(/*rank=*/3);
    const absl::Status status = RunMemoryRanks(
        *MemoryNetwork::Make(hosts.size()), hosts.size(), [&](Communicator& comm) -> absl::Status {
          PrivateReducerOptions options = kind;
          options.policy = ProgressPolicy::kInline;
          options.host = hosts.HostOf(comm.rank());
          if (comm.rank() == kOfSecondStripe) options.progress = &watch;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    MakePlanned(comm, {{"g", {40000}}}, options));
          reducer->SetRows(1);
          if (options.host == 1) MILLRACE_RETURN_IF_ERROR(watch.AwaitIt(/*step=*/0, /*bucket=*/0));
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          return comm.Barrier();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Whoever reduces: a thread waits with a timeout of its own.
TEST(ReducerBetweenHosts, TheTimeoutNamesTheBucketAndTheRankOfAnotherHost) {
  for (const ProgressPolicy policy : {ProgressPolicy::kInline, ProgressPolicy::kThread}) {
    std::atomic<bool> made = false;
    std::atomic<bool> told = false;
    LeapingClock clock;
    TransportOptions timed;
    timed.clock = [&clock] { return clock.Now(); };
    const absl::Status status = RunMemoryRanks(
        *MemoryNetwork::Make(2), 2,
        [&](Communicator& comm) -> absl::Status {
          comm.set_timeout(std::chrono::minutes(1));
          PrivateReducerOptions options;
          options.policy = policy;
          options.host = comm.rank();
          const auto reducer = MakePlanned(comm, {{"g", {10}}}, options);
          if (comm.rank() == 1) {
            MILLRACE_RETURN_IF_ERROR(reducer.status());
            made = true;
            return AwaitUntil([&told] { return told.load(); });
          }
          absl::Status outcome = reducer.status();
          if (outcome.ok()) outcome = AwaitUntil([&made] { return made.load(); });
          clock.Start();
          if (outcome.ok()) outcome = MarkAll(**reducer, 1);
          if (outcome.ok()) outcome = (*reducer)->Finish();
          told = true;
          const bool names = absl::StartsWith(outcome.message(), "gradient bucket 0: ") &&
                             absl::StrContains(outcome.message(), "rank 1 did not come");
          return absl::IsDeadlineExceeded(outcome) && names ? absl::OkStatus()
                                                            : Fail(outcome.ToString());
        },
        timed);
    EXPECT_TRUE(status.ok()) << status;
  }
}

// The second stripes have no share of so small a bucket, but rows to wait for. The second host
// marks when the first one has.
TEST(ReducerBetweenHosts, MarkReadyDoesNotWaitForRows) {
  const Hosts hosts = {2, 2};
  for (const bool exact : {false, true}) {
    const absl::Status status = RunMemoryRanks(
        *MemoryNetwork::Make(hosts.size()), hosts.size(), [&](Communicator& comm) -> absl::Status {
          comm.set_timeout(std::chrono::seconds(20));
          PrivateReducerOptions options;
          options.policy = ProgressPolicy::kInline;
          options.average_by_rows = true;
          options.exact = exact;
          options.host = hosts.HostOf(comm.rank());
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, {{"g", {10}}}, options));
          reducer->SetRows(comm.rank());
          if (options.host == 1) MILLRACE_RETURN_IF_ERROR(comm.Barrier());
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
          if (options.host == 0) MILLRACE_RETURN_IF_ERROR(comm.Barrier());
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          if (reducer->outcome().rows != 6) return Fail(absl::StrCat(reducer->outcome().rows));
          return comm.Barrier();
        });
    EXPECT_TRUE(status.ok()) << status << "; exact " << exact;
  }
}

// Rank 0's watchdog learns of it while the exchange waits; the network does not.
TEST(ReducerBetweenHosts, ExactSumsAskWhetherPeersLive) {
  std::atomic<bool> told = false;
  const absl::Status status =
      RunMemoryRanks(*MemoryNetwork::Make(2), 2, [&](Communicator& comm) -> absl::Status {
        PrivateReducerOptions options;
        options.exact = true;
        options.policy = ProgressPolicy::kInline;
        options.host = comm.rank();
        return ExpectLostWhile(Phase::kExchanging, comm, {{"g", {100}}}, options, told);
      });
  EXPECT_TRUE(status.ok()) << status;
}

constexpr uint64_t kGradientBytes = 3 << 17;  // all hosts and stripes divide it
constexpr size_t kGradients = 3;              // a bucket each
constexpr uint64_t kAllBytes = kGradients * kGradientBytes;

struct StepCost {
  std::vector<uint64_t> bytes;    // that each rank sends in a step
  std::vector<uint64_t> gathers;  // ... in GatherShards
  std::vector<uint64_t> steps;    // of each stripe: the longest chain of messages in a step
};

// What a network has counted of each rank.
struct Counts {
  explicit Counts(size_t size) : by_rank(size) {}

  std::vector<MemoryNetwork::Count> by_rank;
  // Of a stripe.
  uint64_t StepsOf(const Hosts& hosts, int stripe) const {
    uint64_t steps = 0;
    for (int rank = 0; rank < hosts.size(); ++rank) {
      if (hosts.StripeOf(rank) == stripe) steps = std::max(steps, by_rank[rank].steps);
    }
    return steps;
  }
};

absl::Status StepOfOnes(GradientReducer& reducer, size_t gradients) {
  reducer.SetRows(1);
  for (size_t g = 0; g < gradients; ++g) {
    std::ranges::fill(reducer.gradient(g).as<float>(), 1.0f);
    MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  return reducer.Finish();
}

// Of a reducer's second step: since the first one a stripe's ranks are at the same place of its
// chain.
StepCost CostOf(const Hosts& hosts, const PrivateReducerOptions& common,
                size_t gradients = kGradients) {
  const auto network = MemoryNetwork::Make(hosts.size());
  Counts before(hosts.size());
  Counts after(hosts.size());
  Counts gathered(hosts.size());
  const absl::Status run =
      RunMemoryRanks(*network, hosts.size(), [&](Communicator& comm) -> absl::Status {
        const int rank = comm.rank();
        PrivateReducerOptions options = common;
        options.host = hosts.HostOf(rank);
        options.bucket_bytes = options.edge_bucket_bytes = kGradientBytes;
        const GradientSpec spec = {"g", {kGradientBytes / sizeof(float)}};
        std::vector<GradientSpec> specs(gradients, spec);
        for (size_t g = 0; g < gradients; ++g) specs[g].name = absl::StrCat("g", g);
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer, MakePlanned(comm, specs, options));
        if (reducer->num_buckets() != gradients) return Fail(reducer->Summary());
        MILLRACE_RETURN_IF_ERROR(StepOfOnes(*reducer, gradients));
        before.by_rank[rank] = network->CountOf(rank);
        MILLRACE_RETURN_IF_ERROR(StepOfOnes(*reducer, gradients));
        after.by_rank[rank] = network->CountOf(rank);
        MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
        gathered.by_rank[rank] = network->CountOf(rank);
        return comm.Barrier();
      });
  EXPECT_TRUE(run.ok()) << run;
  StepCost cost;
  for (int rank = 0; rank < hosts.size(); ++rank) {
    cost.bytes.push_back(after.by_rank[rank].bytes - before.by_rank[rank].bytes);
    cost.gathers.push_back(gathered.by_rank[rank].bytes - after.by_rank[rank].bytes);
  }
  for (int stripe = 0; stripe < hosts.ranks_each; ++stripe) {
    cost.steps.push_back(after.StepsOf(hosts, stripe) - before.StepsOf(hosts, stripe));
  }
  return cost;
}

class ReducerCosts : public testing::TestWithParam<Hosts> {
 protected:
  uint64_t H() const { return GetParam().num_hosts; }
  uint64_t R() const { return GetParam().ranks_each; }
  uint64_t P() const { return H() * R(); }

  StepCost Cost(const PrivateReducerOptions& options) const { return CostOf(GetParam(), options); }
  // Of one bucket; with more of them messages of one may follow another's, as it happens.
  std::vector<uint64_t> Steps(const PrivateReducerOptions& options) const {
    return CostOf(GetParam(), options, 1).steps;
  }
};

INSTANTIATE_TEST_SUITE_P(Hosts, ReducerCosts,
                         testing::Values(Hosts{1, 2}, Hosts{2, 1}, Hosts{2, 2}, Hosts{3, 2},
                                         Hosts{4, 1}, Hosts{4, 2}),
                         [](const auto& hosts) {
                           return absl::StrCat(hosts.param.num_hosts, "_of_",
                                               hosts.param.ranks_each);
                         });

TEST_P(ReducerCosts, AStepAllReducesTheShareBetweenHosts) {
  const PrivateReducerOptions options;
  EXPECT_THAT(Cost(options).bytes, Each(2 * (H() - 1) * kAllBytes / (H() * R())));
  EXPECT_THAT(Cost(options).gathers, Each(0));
  EXPECT_THAT(Steps(options), Each(H() == 1 ? 0 : 2));
}

TEST_P(ReducerCosts, SixteenBitsOnTheWireAreHalfTheBytes) {
  for (const DType wire : {DType::kBF16, DType::kF16}) {
    PrivateReducerOptions options;
    options.wire = wire;
    EXPECT_THAT(Cost(options).bytes, Each((H() - 1) * kAllBytes / (H() * R())));
    EXPECT_THAT(Steps(options), Each(H() == 1 ? 0 : 2));
    options.shard = true;
    EXPECT_THAT(Cost(options).bytes, Each((H() - 1) * kAllBytes / (H() * R())));
    EXPECT_THAT(Cost(options).gathers, Each((H() - 1) * kAllBytes / (H() * R())));
  }
}

TEST_P(ReducerCosts, ExactSumsSendAllRanksData) {
  PrivateReducerOptions options;
  options.exact = true;
  EXPECT_THAT(Cost(options).bytes, Each((H() - 1) * (kAllBytes + kAllBytes / R()) / H()));
  EXPECT_THAT(Steps(options), Each(H() == 1 ? 0 : 2));
}

TEST_P(ReducerCosts, WithoutSharedMemoryEachRankIsAHost) {
  PrivateReducerOptions options;
  options.shared_memory = false;
  EXPECT_THAT(Cost(options).bytes, Each(2 * (P() - 1) * kAllBytes / P()));
}

TEST_P(ReducerCosts, ShardsAreScatteredAndGathered) {
  PrivateReducerOptions options;
  options.shard = true;
  const StepCost cost = Cost(options);
  EXPECT_THAT(cost.bytes, Each((H() - 1) * kAllBytes / (H() * R())));
  EXPECT_THAT(cost.gathers, Each((H() - 1) * kAllBytes / (H() * R())));
  EXPECT_THAT(Steps(options), Each(H() == 1 ? 0 : 1));
}

TEST_P(ReducerCosts, RowsAndTheNormOfShardsAreANumberMoreEach) {
  PrivateReducerOptions options;
  options.shard = true;
  const std::vector<uint64_t> plain = Cost(options).bytes;
  options.average_by_rows = true;
  EXPECT_THAT(Cost(options).bytes, Each(plain[0] + 8 * (H() - 1)));
  options.clip_norm = 1;
  EXPECT_THAT(Cost(options).bytes, Each(plain[0] + 16 * (H() - 1)));
  options.shard = false;  // whoever has all sums needs no other host's norm
  EXPECT_THAT(Cost(options).bytes, Each(2 * plain[0] + 8 * (H() - 1)));
}

}  // namespace
}  // namespace millrace::collectives
