// NCCL itself: several ranks on one GPU, one process each. NCCL refuses a second rank on a device
// of the same host, so every process says that it is on a host of its own, and they talk over the
// loopback network: its real kernels and protocols, at a speed that means nothing. Without a GPU or
// a libnccl, or in a build without CUDA, all cases are skipped and counted.

#include <csignal>
#include <cstdlib>

#include "collectives/cuda/queue.h"
#include "collectives/nccl/api.h"
#include "collectives/nccl_communicator.h"
#include "gmock/gmock.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/cuda/gpu_memory.h"
#include "tests/collectives/forked_ranks.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/staged_communicator.h"
#include "tests/collectives/reducer/staged_reducer.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::seconds kGuard(300);  // each call takes some time slices of the GPU

// Before the first call of NCCL in this process.
void PretendToBeAHost(int rank) {
  setenv("NCCL_HOSTID", absl::StrCat("rank", rank).c_str(), 1);
  const std::pair<const char*, const char*> settings[] = {
      {"NCCL_P2P_DISABLE", "1"},   {"NCCL_SHM_DISABLE", "1"}, {"NCCL_NET", "Socket"},
      {"NCCL_MNNVL_ENABLE", "0"},  {"NCCL_NVLS_ENABLE", "0"}, {"NCCL_SOCKET_IFNAME", "lo"},
      {"NCCL_MAX_NCHANNELS", "2"}, {"NCCL_ALGO", "Ring"},     {"NCCL_PROTO", "Simple"},
  };
  for (const auto& [name, value] : settings) setenv(name, value, 0);
}

// What is missing here; asked in a process of its own, as CUDA does not survive a fork.
const absl::Status& Missing() {
  static const absl::Status missing = RunForked(1, kGuard, [](Communicator&) {
    MILLRACE_RETURN_IF_ERROR(MakeCudaQueue(0, nullptr).status());
    return nccl::LoadApi("").status();
  })[0];
  return missing;
}

using GpuBody = std::function<absl::Status(Communicator& bootstrap, NcclCommunicator& comm)>;

std::vector<absl::Status> RunOnGpu(int size, const GpuBody& body) {
  return RunForked(size, kGuard, [&](Communicator& bootstrap) {
    PretendToBeAHost(bootstrap.rank());
    MILLRACE_ASSIGN_OR_RETURN(const auto comm, MakeNccl(bootstrap, {.device = 0}));
    return body(bootstrap, *comm);
  });
}

using MakeGroup =
    std::function<absl::StatusOr<std::unique_ptr<Communicator>>(Communicator& bootstrap)>;

absl::StatusOr<std::unique_ptr<Communicator>> MakeByNccl(Communicator& bootstrap) {
  return MakeNccl(bootstrap, {.device = 0});
}

// A rank that is alone, without NCCL.
absl::StatusOr<std::unique_ptr<Communicator>> MakeAlone(Communicator& /*bootstrap*/) {
  return MakeSingleOnDevice(0, nullptr);
}

// The conformance suite knows host memory and one status.
absl::Status RunStaged(int size, const MakeGroup& make, const RankBody& body) {
  if (!Missing().ok()) {
    [] { GTEST_SKIP() << Missing(); }();
    return absl::OkStatus();
  }
  const auto outcomes = RunForked(size, kGuard, [&](Communicator& bootstrap) {
    PretendToBeAHost(bootstrap.rank());
    MILLRACE_ASSIGN_OR_RETURN(auto comm, make(bootstrap));
    StagedCommunicator staged(std::move(comm));
    return body(staged);
  });
  for (const absl::Status& outcome : outcomes) MILLRACE_RETURN_IF_ERROR(outcome);
  return absl::OkStatus();
}

// Powers of two: NCCL may average by summing quotients, which are exact then.
Backend OneGpu(int size) {
  return {absl::StrCat("ranks", size),
          [size](const RankBody& body) { return RunStaged(size, MakeByNccl, body); }};
}

Backend Alone() {
  return {"alone", [](const RankBody& body) { return RunStaged(1, MakeAlone, body); }};
}

INSTANTIATE_TEST_SUITE_P(OneGpu, CommunicatorConformance,
                         testing::Values(OneGpu(2), OneGpu(4), Alone()), BackendInstanceName);

class NcclGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Missing().ok()) GTEST_SKIP() << Missing();
  }
};

// The sum of `count` ones of every rank, in `memory` on the GPU.
absl::Status SumOfOnes(Communicator& comm, void* memory, int64_t count) {
  std::vector<float> data(count, 1.0f);
  MILLRACE_RETURN_IF_ERROR(CopyToGpu(memory, data.data(), count * sizeof(float)));
  Request request;
  request.kind = Collective::kAllReduce;
  request.out = {memory, DType::kF32, Shape{count}};
  request.in = request.out;
  request.agreed = true;
  MILLRACE_RETURN_IF_ERROR(comm.Run(request));
  MILLRACE_RETURN_IF_ERROR(CopyFromGpu(data.data(), memory, count * sizeof(float)));
  const bool good = std::ranges::count(data, static_cast<float>(comm.size())) == count;
  return good ? absl::OkStatus() : Fail("not the sum");
}

TEST_F(NcclGpuTest, RegisteredMemoryIsReduced) {
  constexpr int64_t kCount = 1 << 20;
  const auto outcomes = RunOnGpu(2, [](Communicator&, NcclCommunicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(void* const memory, comm.Allocate(kCount * sizeof(float)));
    return SumOfOnes(comm, memory, kCount);
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

TEST_F(NcclGpuTest, ScaledSumsMultiplyEachRanksInput) {
  const auto outcomes = RunOnGpu(2, [](Communicator&, NcclCommunicator& comm) {
    float value = 8;
    GpuCopy copy;
    MILLRACE_RETURN_IF_ERROR(copy.Make(&value, sizeof(value)));
    const TensorView view{copy.At(&value), DType::kF32, Shape{1}};
    Request request{Collective::kAllReduce, view, view};
    MILLRACE_RETURN_IF_ERROR(comm.StartScaled(request, 0.25 * (comm.rank() + 1))->Wait());
    MILLRACE_RETURN_IF_ERROR(CopyFromGpu(&value, view.data, sizeof(value)));
    return value == 8 * 0.25 * (1 + 2) ? absl::OkStatus() : Fail(absl::StrCat("sum ", value));
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

// What follows NCCL's calls is ours: the passes on the device.
TEST_F(NcclGpuTest, GradientsOnTheDeviceHaveAllOptions) {
  for (const int size : {2, 4}) {
    const auto outcomes = RunOnGpu(size, [](Communicator&, NcclCommunicator& comm) {
      return CheckAllOptions(comm, ReducerOptions(), StagedReducer::Make);
    });
    for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
  }
}

TEST_F(NcclGpuTest, GradientsOfARankAloneHaveAllOptionsWithoutNccl) {
  const auto outcomes = RunForked(1, kGuard, [](Communicator& bootstrap) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto comm, MakeAlone(bootstrap));
    return CheckAllOptions(*comm, ReducerOptions(), StagedReducer::Make);
  });
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0];
}

TEST_F(NcclGpuTest, ARankThatStaysAwayEndsTheOthersByTheDeadline) {
  const auto outcomes = RunOnGpu(2, [](Communicator& bootstrap, NcclCommunicator& comm) {
    comm.set_timeout(std::chrono::seconds(5));
    GpuCopy copy;
    MILLRACE_RETURN_IF_ERROR(copy.Make(nullptr, 4));
    const absl::Status sum =
        comm.rank() == 1 ? absl::OkStatus() : SumOfOnes(comm, copy.At(nullptr), 1);
    MILLRACE_RETURN_IF_ERROR(bootstrap.Barrier());  // the absent rank lives until the other gave up
    return sum;
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[0])) << outcomes[0];
}

TEST_F(NcclGpuTest, AKilledRankEndsTheOthers) {
  const auto outcomes = RunOnGpu(2, [](Communicator&, NcclCommunicator& comm) {
    comm.set_timeout(std::chrono::seconds(20));
    GpuCopy copy;
    MILLRACE_RETURN_IF_ERROR(copy.Make(nullptr, 4));
    if (comm.rank() == 1) ::raise(SIGKILL);
    return SumOfOnes(comm, copy.At(nullptr), 1);
  });
  EXPECT_TRUE(absl::IsUnavailable(outcomes[0]) || absl::IsDeadlineExceeded(outcomes[0]))
      << outcomes[0];
  EXPECT_EQ(outcomes[1], absl::AbortedError("the rank has died"));
}

}  // namespace
}  // namespace millrace::collectives
