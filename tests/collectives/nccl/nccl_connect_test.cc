// NCCL behind Connect: over fake libraries, with the host for a device (host_device.cc).
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "collectives/factory.h"
#include "gmock/gmock.h"
#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/collectives/test_buffer.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

class NcclConnectTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
          "SLURM_STEP_ID", "SLURM_STEPID", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
          "TF_CONFIG", "JOB_COMPLETION_INDEX", "MILLRACE_NCCL_LIBRARY"}) {
      unsetenv(name);
    }
    folder_ = testing::TempDir() + "/nccl-connect-test-" + std::to_string(getpid());
  }
  void TearDown() override { rmdir(folder_.c_str()); }

  // Rank `rank` of `size`, which meet in a folder over TCP.
  ConnectOptions By(const std::string& library, int rank, int size) const {
    ConnectOptions options;
    options.backend = "nccl";
    options.nccl.library = library;
    options.flags = {.rank = rank, .size = size};
    options.rendezvous = "file:" + folder_;
    return options;
  }

  std::string folder_;
};

TEST_F(NcclConnectTest, IsNamedWithTheOtherBackends) {
  EXPECT_THAT(BackendNames(), testing::Contains("nccl"));
}

TEST_F(NcclConnectTest, RanksThatMeetOverTcpTalkOverNccl) {
  std::vector<absl::Status> outcomes(3);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        outcomes[rank] = [&]() -> absl::Status {
          ConnectOptions options = By(FAKE_NCCL, rank, 3);
          options.timeout = std::chrono::seconds(77);
          MILLRACE_ASSIGN_OR_RETURN(const Launch launch, Connect(options));
          Communicator& comm = *launch.communicator;
          EXPECT_EQ(comm.backend(), "nccl");
          EXPECT_EQ(comm.rank(), rank);
          EXPECT_EQ(comm.timeout(), std::chrono::seconds(77));
          EXPECT_EQ(launch.reason, "nccl: 2.28.9; tcp: --world-size=3, met at file:" + folder_);
          Buffer data(DType::kF32, 100, rank);
          MILLRACE_RETURN_IF_ERROR(comm.AllReduce(data.view(), ReduceOp::kSum));
          return data.Get(7) == Expected(ReduceOp::kSum, 3, 7) ? absl::OkStatus() : Fail("sum");
        }();
      });
    }
  }
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
  EXPECT_EQ(ControlOf(FAKE_NCCL).live, 0);
}

TEST_F(NcclConnectTest, OneRankNeedsNoMeeting) {
  ConnectOptions options;
  options.backend = "nccl";
  options.nccl.library = FAKE_NCCL;
  const absl::StatusOr<Launch> launch = Connect(options);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->reason, "nccl: 2.28.9; single: no launcher variables");
}

TEST_F(NcclConnectTest, AnAbsentLibraryIsSaid) {
  ConnectOptions options;
  options.backend = "nccl";
  options.nccl.library = "/no/such/libnccl.so";
  EXPECT_MESSAGE(Connect(options).status(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(NcclConnectTest, AVersionThatIsNotTakenIsSaid) {
  messages::HideInMessages(FAKE_NCCL_OLD, "old");
  messages::HideInMessages(FAKE_NCCL_NEXT, "next");
  for (const char* const library : {FAKE_NCCL_OLD, FAKE_NCCL_NEXT}) {
    ConnectOptions options;
    options.backend = "nccl";
    options.nccl.library = library;
    EXPECT_MESSAGE(Connect(options).status(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(NcclConnectTest, ARankThatNeverComesIsNamed) {
  ConnectOptions options = By(FAKE_NCCL, 0, 2);
  options.connect_timeout = std::chrono::milliseconds(200);
  messages::HideInMessages(folder_, "folder");
  EXPECT_MESSAGE(Connect(options).status(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace millrace::collectives
