// Steps (the longest chain of dependent messages) and bytes per rank of every operation over 2 to
// 64 ranks, as collectives/ALGORITHMS.md says.
#include <algorithm>
#include <bit>
#include <vector>

#include "gtest/gtest.h"
#include "tests/collectives/messages/memory_transport.h"

namespace millrace::collectives {
namespace {

constexpr uint64_t kSummaryBytes = 32;

TransportOptions SmallLimits() {
  TransportOptions options;
  options.gather_bytes = 512;
  options.piece_bytes = 256;
  return options;
}

struct Cost {
  uint64_t steps = 0;
  std::vector<uint64_t> bytes;  // by rank
};

Cost CostOf(int size, const RankBody& body) {
  const auto network = MemoryNetwork::Make(size);
  const absl::Status run = RunMemoryRanks(*network, size, body, SmallLimits());
  EXPECT_TRUE(run.ok()) << run;
  Cost cost;
  for (int rank = 0; rank < size; ++rank) {
    const MemoryNetwork::Count count = network->CountOf(rank);
    cost.steps = std::max(cost.steps, count.steps);
    cost.bytes.push_back(count.bytes);
  }
  return cost;
}

class Scaling64 : public testing::TestWithParam<int> {
 protected:
  uint64_t P() const { return GetParam(); }
  // ceil(log2(P)).
  uint64_t Log() const { return std::bit_width(P() - 1); }

  // The cost of one call of `kind` that needs no comparison, with inputs and outputs of so many
  // bytes.
  Cost Call(Collective kind, size_t in_bytes, size_t out_bytes) const {
    return CostOf(GetParam(), [=](Communicator& comm) {
      Buffer in(DType::kU8, in_bytes, comm.rank());
      Buffer out(DType::kU8, out_bytes);
      const bool in_place = kind == Collective::kReduce || kind == Collective::kBroadcast;
      Request request{kind, in.view(), in_place ? in.view() : out.view()};
      request.agreed = true;
      return comm.Run(request);
    });
  }
  static void ExpectEachSends(const Cost& cost, uint64_t bytes) {
    for (const uint64_t sent : cost.bytes) EXPECT_EQ(sent, bytes);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Scaling64, testing::Values(2, 3, 4, 5, 7, 8, 16, 31, 32, 64));

TEST_P(Scaling64, ComparingCallsTakesLogStepsOfSummaries) {
  const Cost cost = CostOf(GetParam(), [](Communicator& comm) { return comm.Barrier(); });
  EXPECT_EQ(cost.steps, Log());
  ExpectEachSends(cost, kSummaryBytes * (P() - 1));
}

TEST_P(Scaling64, AllReduce) {
  const Cost small = Call(Collective::kAllReduce, 8, 8);
  EXPECT_EQ(small.steps, Log());
  ExpectEachSends(small, 8 * (P() - 1));
  const Cost one_round = Call(Collective::kAllReduce, 256 * P(), 256 * P());
  EXPECT_EQ(one_round.steps, 2u);
  ExpectEachSends(one_round, 2 * (P() - 1) * 256);
  const Cost four_rounds = Call(Collective::kAllReduce, 1024 * P(), 1024 * P());
  EXPECT_EQ(four_rounds.steps, 4u + 1);
  ExpectEachSends(four_rounds, 2 * (P() - 1) * 1024);
}

TEST_P(Scaling64, ReduceScatter) {
  const Cost one_round = Call(Collective::kReduceScatter, 256 * P(), 256);
  EXPECT_EQ(one_round.steps, 1u);
  ExpectEachSends(one_round, (P() - 1) * 256);
  const Cost four_rounds = Call(Collective::kReduceScatter, 1024 * P(), 1024);
  EXPECT_EQ(four_rounds.steps, 2u);
  ExpectEachSends(four_rounds, (P() - 1) * 1024);
}

TEST_P(Scaling64, AllGather) {
  const Cost small = Call(Collective::kAllGather, 8, 8 * P());
  EXPECT_EQ(small.steps, Log());
  ExpectEachSends(small, 8 * (P() - 1));
  const Cost four_rounds = Call(Collective::kAllGather, 1024, 1024 * P());
  EXPECT_EQ(four_rounds.steps, 2u);
  ExpectEachSends(four_rounds, 1024 * (P() - 1));
}

TEST_P(Scaling64, AllToAll) {
  const Cost one_round = Call(Collective::kAllToAll, 256 * P(), 256 * P());
  EXPECT_EQ(one_round.steps, 1u);
  ExpectEachSends(one_round, 256 * (P() - 1));
  const Cost four_rounds = Call(Collective::kAllToAll, 1024 * P(), 1024 * P());
  EXPECT_EQ(four_rounds.steps, 2u);
  ExpectEachSends(four_rounds, 1024 * (P() - 1));
}

TEST_P(Scaling64, Broadcast) {
  const Cost small = Call(Collective::kBroadcast, 100, 0);
  EXPECT_EQ(small.steps, std::bit_width(P()) - 1u);
  uint64_t sent = 0;
  for (const uint64_t bytes : small.bytes) sent += bytes;
  EXPECT_EQ(sent, 100 * (P() - 1));
  EXPECT_EQ(small.bytes[0], 100 * Log());
  const Cost large = Call(Collective::kBroadcast, 1024 * P(), 0);
  EXPECT_EQ(large.steps, P() == 2 ? 1u : 4u + 1);
  EXPECT_EQ(large.bytes[0], 2 * (P() - 1) * 1024);
  for (uint64_t rank = 1; rank < P(); ++rank) EXPECT_EQ(large.bytes[rank], (P() - 2) * 1024);
}

TEST_P(Scaling64, Reduce) {
  const Cost small = Call(Collective::kReduce, 8, 0);
  EXPECT_EQ(small.steps, 1u);
  EXPECT_EQ(small.bytes[0], 0u);
  EXPECT_EQ(small.bytes[1], 8u);
  EXPECT_EQ(Call(Collective::kReduce, 256 * P(), 0).steps, 2u);
  const Cost large = Call(Collective::kReduce, 1024 * P(), 0);
  EXPECT_LE(large.steps, 4u + 1);
  EXPECT_EQ(large.bytes[0], (P() - 1) * 1024);
  for (uint64_t rank = 1; rank < P(); ++rank) EXPECT_EQ(large.bytes[rank], P() * 1024);
}

TEST_P(Scaling64, Split) {
  const Cost cost = CostOf(GetParam(), [](Communicator& comm) {
    return comm.Split(comm.rank() % 2, comm.rank()).status();
  });
  EXPECT_EQ(cost.steps, 2 * Log());
  ExpectEachSends(cost, 44 * (P() - 1));
}

TEST_P(Scaling64, SendIsOneStep) {
  const Cost cost = CostOf(GetParam(), [](Communicator& comm) {
    Buffer data(DType::kU8, 1000);
    if (comm.rank() == 0) return comm.Send(data.view(), 1);
    return comm.rank() == 1 ? comm.Recv(data.view(), 0) : absl::OkStatus();
  });
  EXPECT_EQ(cost.steps, 1u);
  EXPECT_EQ(cost.bytes[0], kSummaryBytes + 1000);
}

}  // namespace
}  // namespace millrace::collectives
