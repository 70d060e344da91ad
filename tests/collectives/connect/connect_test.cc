// Connect in processes that no launcher started, and in those that a launcher's variables mislead.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/status.h"
#include "collectives/factory.h"
#include "gmock/gmock.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;

// What is said about launchers and MPI depends on whether this build has MPI: parts of it are
// asserted here, not whole messages.
class ConnectTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "PMIX_RANK", "SLURM_STEP_ID", "SLURM_STEPID", "RANK", "WORLD_SIZE",
                             "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG", "JOB_COMPLETION_INDEX"}) {
      unsetenv(name);
    }
  }
};

TEST_F(ConnectTest, WithoutALauncherIsSingle) {
  const absl::StatusOr<Launch> launch = Connect();
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->communicator->backend(), "single");
  EXPECT_EQ(launch->reason, "single: no launcher variables");
}

TEST_F(ConnectTest, UnderALauncherOfOneIsSingle) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  const absl::StatusOr<Launch> launch = Connect();
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->reason, "single: OMPI_COMM_WORLD_SIZE=1");
}

// Variables of a launcher that MPI knows nothing of: MPI sees a job of one (or is not built).
TEST_F(ConnectTest, RanksThatMpiDoesNotSeeAreFailedPrecondition) {
  setenv("PMI_SIZE", "2", 1);
  setenv("PMI_RANK", "1", 1);
  const absl::Status status = Connect().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("PMI_SIZE=2"));
}

// srun without --mpi=pmix: Open MPI's own start would end the process.
TEST_F(ConnectTest, TasksOfSlurmWithoutPmixAreFailedPrecondition) {
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  setenv("SLURM_PROCID", "1", 1);
  const absl::Status status = Connect().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("SLURM_STEP_NUM_TASKS=2"));
}

ConnectOptions ByName(const std::string& backend) {
  ConnectOptions options;
  options.backend = backend;
  return options;
}

TEST_F(ConnectTest, ABackendThatNoProcessHasIsInvalid) {
  for (const char* name : {"gloo", "threads", "MPI"}) {
    const absl::Status status = Connect(ByName(name)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("single, tcp"));
  }
}

TEST_F(ConnectTest, ABackendByNameIsTaken) {
  const absl::StatusOr<Launch> tcp = Connect(ByName("tcp"));
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ(tcp->communicator->backend(), "tcp");
  EXPECT_EQ(tcp->communicator->size(), 1);
  EXPECT_EQ(tcp->reason, "tcp: no launcher variables");
}

TEST_F(ConnectTest, TheTimeoutIsThatOfTheCommunicator) {
  ConnectOptions options;
  options.timeout = std::chrono::seconds(7);
  const absl::StatusOr<Launch> launch = Connect(options);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->communicator->timeout(), std::chrono::seconds(7));
}

TEST_F(ConnectTest, SingleForOneOfSeveralRanksIsFailedPrecondition) {
  setenv("WORLD_SIZE", "2", 1);
  setenv("RANK", "0", 1);
  const absl::Status status = Connect(ByName("single")).status();
  EXPECT_MESSAGE(status, absl::StatusCode::kFailedPrecondition);
}

TEST_F(ConnectTest, RanksWithoutAMeetingPlaceAreFailedPrecondition) {
  setenv("WORLD_SIZE", "2", 1);
  setenv("RANK", "0", 1);
  const absl::Status status = Connect().status();
  EXPECT_MESSAGE(status, absl::StatusCode::kFailedPrecondition);
}

TEST_F(ConnectTest, TcpWithoutANumberOfRanksIsFailedPrecondition) {
  setenv("PMIX_RANK", "0", 1);
  const absl::Status status = Connect(ByName("tcp")).status();
  EXPECT_MESSAGE(status, absl::StatusCode::kFailedPrecondition);
}

TEST_F(ConnectTest, ARendezvousThatIsNoAddressIsInvalid) {
  ConnectOptions options;
  options.rendezvous = "nowhere";
  EXPECT_TRUE(absl::IsInvalidArgument(Connect(options).status()));
}

// Every process of the job would run alone.
TEST_F(ConnectTest, AMeetingPlaceOrAJobWithoutARankIsFailedPrecondition) {
  ConnectOptions meets;
  meets.rendezvous = "node1:29500";
  ConnectOptions belongs;
  belongs.job_id = "mine";
  setenv("WORLD_SIZE", "2", 1);  // without RANK it says nothing
  for (const ConnectOptions& options : {meets, belongs}) {
    EXPECT_MESSAGE(Connect(options).status(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(ConnectTest, AMeetingPlaceAndAJobAreForWhoeverHasARank) {
  ConnectOptions options;
  options.rendezvous = "node1:29500";
  options.job_id = "mine";
  options.flags = {.rank = 0, .size = 1};
  EXPECT_TRUE(Connect(options).ok()) << Connect(options).status();
  options.flags = {};
  setenv("WORLD_SIZE", "1", 1);
  setenv("RANK", "0", 1);
  EXPECT_TRUE(Connect(options).ok()) << Connect(options).status();
}

TEST_F(ConnectTest, AGroupOfSomeOfTheRanksIsNotTheLaunchersJob) {
  setenv("WORLD_SIZE", "3", 1);
  setenv("RANK", "2", 1);
  ConnectOptions options;
  options.flags = {.rank = 0, .size = 1};
  options.rendezvous = "node1:29500";
  EXPECT_TRUE(absl::IsFailedPrecondition(Connect(options).status()));
  options.ignore_launcher = true;
  EXPECT_TRUE(Connect(options).ok()) << Connect(options).status();
}

TEST_F(ConnectTest, ARankThatNeverComesIsNamed) {
  ConnectOptions options;
  options.flags = {.rank = 0, .size = 2};
  options.rendezvous = testing::TempDir() + "/connect-test-" + std::to_string(getpid());
  options.connect_timeout = std::chrono::milliseconds(200);
  messages::HideInMessages(options.rendezvous, "folder");
  EXPECT_MESSAGE(Connect(options).status(), absl::StatusCode::kDeadlineExceeded);
  rmdir(options.rendezvous.c_str());
}

}  // namespace
}  // namespace millrace::collectives
