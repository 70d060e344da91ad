#ifndef MILLRACE_TESTS_COLLECTIVES_COMMUNICATOR_CONFORMANCE_H_
#define MILLRACE_TESTS_COLLECTIVES_COMMUNICATOR_CONFORMANCE_H_

// What every backend must do. A backend's test file instantiates CommunicatorConformance with a way
// to run a body on all ranks of a group; a body reports by its status, so that a failing rank takes
// its peers along. Values are small whole numbers (exact in every type, whatever the order of the
// sum), except where the bits themselves are the claim. The oracle is a serial loop.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "gtest/gtest.h"
#include "tests/collectives/test_buffer.h"
#include "tests/sanitized.h"

namespace millrace::collectives {

struct Backend {
  std::string name;  // of the instance
  std::function<absl::Status(const RankBody&)> run;
  // Ranks are threads of this process, and a group that has failed does no harm to the next one.
  bool may_fail = true;
  // The network takes messages of any length from a sender before anybody receives them.
  bool keeps_messages = false;
  // Floating-point sums have the bits of the threads backend.
  bool same_bits = true;
  // Messages that were begun move whatever the order in which their ranks began them.
  bool begun_messages_meet = true;
  // Split waits no longer than the communicator's timeout.
  bool split_has_timeout = true;
  // What a rank has begun and a peer's leaving ends, ends with the peer's reason.
  bool tells_why_peers_left = true;
};

// Of the groups of the backends that are cheap; fewer with a sanitizer.
inline std::vector<int> Sizes() {
  if (kSanitized) return {1, 2, 3, 6};
  return {1, 2, 3, 4, 5, 6, 7, 8};
}

inline std::string BackendInstanceName(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

inline constexpr DType kTaken[] = {DType::kU8,   DType::kI32, DType::kI64, DType::kF16,
                                   DType::kBF16, DType::kF32, DType::kF64};
inline constexpr DType kOneOfEachSize[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};
inline constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                                    ReduceOp::kMax, ReduceOp::kAverage};
inline constexpr size_t kCounts[] = {0, 1, 7, 4097, 70001};

class CommunicatorConformance : public testing::TestWithParam<Backend> {
 protected:
  void RunOk(const RankBody& body) {
    const absl::Status status = GetParam().run(body);
    EXPECT_TRUE(status.ok()) << status;
  }
  // `body` for every element type and count; the large count with two types, to save time, and
  // with a sanitizer only one type of each size.
  void ForAll(const std::function<absl::Status(Communicator&, DType, size_t)>& body) {
    RunOk([&body](Communicator& comm) {
      for (const DType dtype : kTaken) {
        if (kSanitized && std::ranges::count(kOneOfEachSize, dtype) == 0) continue;
        for (const size_t count : kCounts) {
          const bool large_too = dtype == DType::kF32 || dtype == DType::kI64;
          if (count > 50000 && !large_too) continue;
          MILLRACE_RETURN_IF_ERROR(body(comm, dtype, count));
        }
      }
      return absl::OkStatus();
    });
  }
  // ForAll with every reduction that the element type takes.
  void ForAllOps(const std::function<absl::Status(Communicator&, DType, size_t, ReduceOp)>& body) {
    ForAll([&body](Communicator& comm, DType dtype, size_t count) {
      for (const ReduceOp op : kOps) {
        if (op == ReduceOp::kAverage && IsWhole(dtype)) continue;
        if (count > 50000 && op != ReduceOp::kSum) continue;
        MILLRACE_RETURN_IF_ERROR(body(comm, dtype, count, op));
      }
      return absl::OkStatus();
    });
  }
  // The same where each rank has a block: the counts are those of all blocks together, rounded up.
  void ForAllBlocks(const std::function<absl::Status(Communicator&, DType, size_t)>& body) {
    ForAll([&body](Communicator& comm, DType dtype, size_t count) {
      const size_t size = comm.size();
      return body(comm, dtype, (count + size - 1) / size);
    });
  }
};

// All ranks of a backend are on one host.
inline absl::Status CheckHost(const Communicator& comm) {
  if (comm.rank() < 0 || comm.rank() >= comm.size()) return Fail("no rank of the group");
  if (comm.local_rank() == comm.rank() && comm.local_size() == comm.size()) return absl::OkStatus();
  return Fail(absl::StrCat("rank ", comm.rank(), " of ", comm.size(), " is rank ",
                           comm.local_rank(), " of ", comm.local_size(), " of its host"));
}

TEST_P(CommunicatorConformance, RanksAreNumberedWithinTheirHost) {
  RunOk([](Communicator& comm) {
    MILLRACE_RETURN_IF_ERROR(CheckHost(comm));
    MILLRACE_ASSIGN_OR_RETURN(const auto half, comm.Split(comm.rank() % 2, -comm.rank()));
    MILLRACE_RETURN_IF_ERROR(CheckHost(*half));
    return comm.Barrier();
  });
}

TEST_P(CommunicatorConformance, AllReduceEqualsTheSerialReduction) {
  ForAllOps([](Communicator& comm, DType dtype, size_t count, ReduceOp op) {
    Buffer data(dtype, count, comm.rank(), op);
    MILLRACE_RETURN_IF_ERROR(comm.AllReduce(data.view(), op));
    return data.Check(op, comm.size(), 0, count, 0);
  });
}

TEST_P(CommunicatorConformance, AllReduceIntoAnotherTensorLeavesTheInput) {
  ForAllOps([](Communicator& comm, DType dtype, size_t count, ReduceOp op) {
    Buffer in(dtype, count, comm.rank(), op);
    const std::vector<std::byte> before = in.bytes();
    Buffer out(dtype, count);
    MILLRACE_RETURN_IF_ERROR(comm.AllReduce(in.view(), out.view(), op));
    if (in.bytes() != before) return Fail("the input has changed");
    return out.Check(op, comm.size(), 0, count, 0);
  });
}

TEST_P(CommunicatorConformance, ReduceLeavesTheReductionWithTheRoot) {
  ForAllOps([](Communicator& comm, DType dtype, size_t count, ReduceOp op) {
    for (int root = 0; root < comm.size(); ++root) {
      if (count > 50000 && root != comm.size() / 2) continue;
      Buffer data(dtype, count, comm.rank(), op);
      MILLRACE_RETURN_IF_ERROR(comm.Reduce(data.view(), op, root));
      if (comm.rank() != root) continue;
      MILLRACE_RETURN_IF_ERROR(data.Check(op, comm.size(), 0, count, 0));
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, ReduceIntoAnotherTensorLeavesTheInput) {
  ForAllOps([](Communicator& comm, DType dtype, size_t count, ReduceOp op) {
    const int root = comm.size() / 2;
    Buffer in(dtype, count, comm.rank(), op);
    const std::vector<std::byte> before = in.bytes();
    Buffer out(dtype, count);
    MILLRACE_RETURN_IF_ERROR(comm.Reduce(in.view(), out.view(), op, root));
    if (in.bytes() != before) return Fail("the input has changed");
    if (comm.rank() != root) return absl::OkStatus();
    return out.Check(op, comm.size(), 0, count, 0);
  });
}

TEST_P(CommunicatorConformance, ReduceScatterLeavesTheReductionInTheOwnBlock) {
  ForAllOps([](Communicator& comm, DType dtype, size_t count, ReduceOp op) {
    const size_t block = (count + comm.size() - 1) / comm.size();
    const size_t own = block * comm.rank();
    Buffer data(dtype, block * comm.size(), comm.rank(), op);
    Buffer out(dtype, block);
    MILLRACE_RETURN_IF_ERROR(comm.ReduceScatter(data.view(), out.view(), op));
    MILLRACE_RETURN_IF_ERROR(out.Check(op, comm.size(), 0, block, own));
    MILLRACE_RETURN_IF_ERROR(comm.ReduceScatter(data.view(), op));
    return data.Check(op, comm.size(), own, own + block, own);
  });
}

TEST_P(CommunicatorConformance, AllToAllTransposesBlocks) {
  ForAllBlocks([](Communicator& comm, DType dtype, size_t block) {
    Buffer in(dtype, block * comm.size(), comm.rank());
    Buffer out(dtype, block * comm.size());
    MILLRACE_RETURN_IF_ERROR(comm.AllToAll(in.view(), out.view()));
    for (int r = 0; r < comm.size(); ++r) {
      for (size_t i = 0; i < block; ++i) {
        if (out.Get(r * block + i) == Value(r, comm.rank() * block + i)) continue;
        return Fail(absl::StrCat(out.Label(), " element ", i, " of rank ", r));
      }
    }
    return absl::OkStatus();
  });
}

inline absl::Status CheckGathered(Communicator& comm, const Buffer& out, size_t block) {
  for (int r = 0; r < comm.size(); ++r) {
    for (size_t i = 0; i < block; ++i) {
      if (out.Get(r * block + i) != Value(r, i)) {
        return Fail(absl::StrCat(out.Label(), " element ", i, " of rank ", r));
      }
    }
  }
  return absl::OkStatus();
}

TEST_P(CommunicatorConformance, AllGatherPutsBlocksInRankOrder) {
  ForAllBlocks([](Communicator& comm, DType dtype, size_t block) {
    Buffer in(dtype, block, comm.rank());
    Buffer out(dtype, block * comm.size());
    MILLRACE_RETURN_IF_ERROR(comm.AllGather(in.view(), out.view()));
    return CheckGathered(comm, out, block);
  });
}

TEST_P(CommunicatorConformance, AllGatherWorksInPlace) {
  ForAllBlocks([](Communicator& comm, DType dtype, size_t block) {
    Buffer out(dtype, block * comm.size());
    for (size_t i = 0; i < block; ++i) out.Set(block * comm.rank() + i, Value(comm.rank(), i));
    TensorView in = out.view();
    in.data = static_cast<std::byte*>(in.data) + block * comm.rank() * SizeOf(dtype);
    in.shape = Shape{static_cast<int64_t>(block)};
    MILLRACE_RETURN_IF_ERROR(comm.AllGather(in, out.view()));
    return CheckGathered(comm, out, block);
  });
}

TEST_P(CommunicatorConformance, BroadcastCopiesFromAnyRoot) {
  ForAll([](Communicator& comm, DType dtype, size_t count) {
    for (int root = 0; root < comm.size(); ++root) {
      Buffer data(dtype, count, comm.rank());
      MILLRACE_RETURN_IF_ERROR(comm.Broadcast(data.view(), root));
      for (size_t i = 0; i < count; ++i) {
        if (data.Get(i) != Value(root, i)) return Fail(absl::StrCat(data.Label(), " from ", root));
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, MessagesOfAPairArriveInOrder) {
  ForAll([](Communicator& comm, DType dtype, size_t count) {
    const int size = comm.size();
    const int next = (comm.rank() + 1) % size;
    const int previous = (comm.rank() + size - 1) % size;
    for (int message = 0; size > 1 && message < 2; ++message) {
      Buffer out(dtype, count, comm.rank() + message);
      Buffer in(dtype, count);
      // The last rank receives first, so that the ring of blocking sends moves.
      const bool sends_first = comm.rank() + 1 < size;
      if (sends_first) MILLRACE_RETURN_IF_ERROR(comm.Send(out.view(), next));
      MILLRACE_RETURN_IF_ERROR(comm.Recv(in.view(), previous));
      if (!sends_first) MILLRACE_RETURN_IF_ERROR(comm.Send(out.view(), next));
      for (size_t i = 0; i < count; ++i) {
        if (in.Get(i) != Value(previous + message, i)) return Fail(in.Label());
      }
    }
    return comm.Barrier();
  });
}

// Every rank tells its old rank within the new group; they must come in the order asked for.
TEST_P(CommunicatorConformance, SplitOrdersByKeyThenRank) {
  RunOk([](Communicator& comm) {
    const int color = comm.rank() % 2;
    MILLRACE_ASSIGN_OR_RETURN(const auto reversed, comm.Split(color, -comm.rank()));
    MILLRACE_ASSIGN_OR_RETURN(const auto kept, comm.Split(color, 0));
    const int members = (comm.size() + 1 - color) / 2;
    if (reversed->size() != members || kept->size() != members) return Fail("size of the half");
    for (Communicator* half : {reversed.get(), kept.get()}) {
      int64_t own = comm.rank();
      std::vector<int64_t> old_ranks(members);
      MILLRACE_RETURN_IF_ERROR(half->AllGather(TensorView{&own, DType::kI64, Shape{1}},
                                               {old_ranks.data(), DType::kI64, Shape{members}}));
      for (int i = 0; i < members; ++i) {
        const int place = half == kept.get() ? i : members - 1 - i;
        if (old_ranks[i] != 2 * place + color) return Fail("order of the half");
      }
    }
    return comm.Barrier();
  });
}

TEST_P(CommunicatorConformance, WrongArgumentsAreInvalidOnEveryRankAndHarmless) {
  RunOk([](Communicator& comm) {
    float memory[8] = {};
    const TensorView good{memory, DType::kF32, Shape{8}};
    const TensorView half{memory, DType::kF32, Shape{4}};
    const TensorView other_half{memory + 4, DType::kF32, Shape{4}};
    const TensorView bytes{memory, DType::kBytes, Shape{8}};
    const TensorView nowhere{nullptr, DType::kF32, Shape{8}};
    const TensorView unknown{memory, DType::kF32, Shape{Shape::kUnknown}};
    const absl::Status outcomes[] = {
        comm.AllReduce(bytes, ReduceOp::kSum),
        comm.AllReduce(nowhere, ReduceOp::kSum),
        comm.AllReduce(unknown, ReduceOp::kSum),
        comm.Broadcast(good, comm.size()),
        comm.Broadcast(good, -1),
        comm.Run({Collective::kBroadcast, good, {memory, DType::kF32, Shape{7}}}),
        comm.Run({Collective::kBroadcast, half, other_half}),
        comm.Reduce(good, half, ReduceOp::kSum, 0),
        comm.Reduce(half, {memory + 2, DType::kF32, Shape{4}}, ReduceOp::kSum, 0),
        comm.Reduce(good, ReduceOp::kSum, comm.size()),
        comm.AllGather(good, {memory, DType::kF32, Shape{7}}),
        comm.AllGather(good, {memory, DType::kI32, Shape{8}}),
        comm.Send(good, comm.rank()),
        comm.Recv(good, comm.size()),
        comm.Split(-1, 0).status(),
    };
    for (const absl::Status& outcome : outcomes) {
      if (!absl::IsInvalidArgument(outcome)) return Fail(absl::StrCat("got ", outcome.ToString()));
    }
    int32_t whole[8] = {};
    const auto average =
        comm.AllReduce(TensorView{whole, DType::kI32, Shape{8}}, ReduceOp::kAverage);
    if (!absl::IsInvalidArgument(average)) return Fail("an average of whole numbers");
    if (comm.size() > 1) {
      const auto uneven = comm.ReduceScatter({memory, DType::kF32, Shape{1}}, ReduceOp::kSum);
      if (!absl::IsInvalidArgument(uneven)) return Fail("uneven blocks");
    }
    return comm.Barrier();
  });
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_COMMUNICATOR_CONFORMANCE_H_
