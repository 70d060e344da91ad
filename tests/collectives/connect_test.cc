// Connect in processes that no launcher started, and in those that a launcher's variables mislead.
#include <cstdlib>

#include "base/status.h"
#include "collectives/factory.h"
#include "gmock/gmock.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;

class ConnectTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "PMIX_RANK", "SLURM_STEP_ID", "SLURM_STEPID"}) {
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

}  // namespace
}  // namespace millrace::collectives
