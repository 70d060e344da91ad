// How the reducer's sums between hosts round.
#include <functional>

#include "collectives/gradient_reducer.h"
#include "gtest/gtest.h"
#include "tests/collectives/memory_transport.h"
#include "tests/collectives/reducer_steps.h"
#include "tests/collectives/tcp_ranks.h"

namespace millrace::collectives {
namespace {

// Ranks are dealt to the hosts by turns.
struct Hosts {
  int num_hosts = 1;
  int ranks_each = 1;

  int size() const { return num_hosts * ranks_each; }
  int HostOf(int rank) const { return rank % num_hosts; }
  int LaneOf(int rank) const { return rank / num_hosts; }
};

// A number to which a 16-bit float of the type cannot add 1: the next one is 2 above.
float LargeOf(DType dtype) { return dtype == DType::kF16 ? 2048 : 256; }

// Of each element one host has the large number and every other host a 1: whatever order the hosts
// are added in, 16-bit partial sums lose some element's ones.
absl::Status SumOnesAndALargeNumber(Communicator& comm, const Hosts& hosts, DType rounded,
                                    const GradientSpec& spec, ReducerOptions options) {
  options.host = hosts.HostOf(comm.rank());
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(comm, {spec}, options));
  const TensorView view = reducer->gradient(0);
  const bool adds = hosts.LaneOf(comm.rank()) == 0;
  for (size_t i = 0; i < CountOf(view); ++i) {
    const bool large = static_cast<int>(i) % hosts.num_hosts == options.host;
    Put(view, i, !adds ? 0 : large ? LargeOf(rounded) : 1);
  }
  MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
  MILLRACE_RETURN_IF_ERROR(reducer->Finish());
  const float sum = LargeOf(rounded) + static_cast<float>(hosts.num_hosts - 1);
  for (const GradientShard& shard : reducer->shards()) {
    for (size_t i = shard.begin; i < shard.end; ++i) {
      if (Get(view, i) != sum) return Fail(absl::StrCat(Get(view, i), " instead of ", sum));
    }
  }
  return comm.Barrier();
}

// Small sums are gathered by every rank, large ones are made in shares.
void ExpectFloat32Sums(const std::function<absl::Status(int size, const RankBody&)>& run) {
  for (const DType rounded : {DType::kBF16, DType::kF16}) {
    for (const Hosts& hosts : {Hosts{5, 1}, Hosts{5, 2}}) {
      for (const bool wired : {true, false}) {
        for (const bool shard : {false, true}) {
          for (const int64_t elements : {100, 40000}) {
            const GradientSpec spec = {"g", {elements}, wired ? DType::kF32 : rounded};
            ReducerOptions options;
            options.wire = wired ? rounded : DType::kF32;
            options.shard = shard;
            const absl::Status status = run(hosts.size(), [&](Communicator& comm) {
              return SumOnesAndALargeNumber(comm, hosts, rounded, spec, options);
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
      ReducerOptions options;
      options.wire = wire;
      return SumOnesAndALargeNumber(comm, Hosts{5, 1}, wire, {"g", {40000}}, options);
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace millrace::collectives
