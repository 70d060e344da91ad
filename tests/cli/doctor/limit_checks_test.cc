#include <gmock/gmock.h>

#include <cstdint>

#include "cli/doctor/checks.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::HasSubstr;

TEST(CheckLimitsTest, AHealthyHostHasFourLinesWithoutAWarning) {
  MadeHost made;
  const Findings findings = CheckLimits(made.host);
  EXPECT_EQ(FindingAbout(findings, "open files").found, "at most 65,536");
  EXPECT_EQ(FindingAbout(findings, "locked memory").found, "unlimited");
  EXPECT_EQ(FindingAbout(findings, "stack").found, "8.0 MiB");
  EXPECT_EQ(FindingAbout(findings, "core files").found, "unlimited");
  for (const Finding& finding : findings) EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.what;
}

TEST(CheckLimitsTest, FewOpenFilesAreAWarningWithTheLimitThatIsAllowed) {
  MadeHost made;
  made.SetLimits("0", "256", "unlimited", "8388608");
  const Findings findings = CheckLimits(made.host);
  const Finding finding = FindingAbout(findings, "open files");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.mend, "ulimit -n 65536");
  EXPECT_THAT(FindingAbout(findings, "core files").found, HasSubstr("off"));
}

TEST(CheckLimitsTest, MoreShardsThanHalfOfTheOpenFilesAreAWarning) {
  MadeHost made;
  made.SetLimits("0", "1024", "unlimited", "8388608");
  EXPECT_EQ(FindingAbout(CheckLimits(made.host), "open files").verdict, Verdict::kOk);
  made.host.disks = {{.path = "data", .num_files = 512}};
  EXPECT_EQ(FindingAbout(CheckLimits(made.host), "open files").verdict, Verdict::kOk);
  made.host.disks = {{.path = "data", .num_files = 1024}};
  const Finding finding = FindingAbout(CheckLimits(made.host), "open files");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("half of them for 1,024 shards"));
}

TEST(CheckLimitsTest, LockedMemoryMattersWithInfinibandOnly) {
  MadeHost made;
  made.SetLimits("0", "65536", "8388608", "8388608");
  EXPECT_EQ(FindingAbout(CheckLimits(made.host), "locked memory").verdict, Verdict::kOk);
  made.Write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  const Finding finding = FindingAbout(CheckLimits(made.host), "locked memory");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.mend, HasSubstr("ulimit -l unlimited"));
}

TEST(CheckLimitsTest, AnUnlimitedStackMattersWithGpusOnly) {
  MadeHost made;
  made.SetLimits("0", "65536", "unlimited", "unlimited");
  EXPECT_EQ(FindingAbout(CheckLimits(made.host), "stack").verdict, Verdict::kOk);
  made.AddGpus();
  EXPECT_EQ(FindingAbout(CheckLimits(made.host), "stack").mend, "ulimit -s 8192");
}

TEST(CheckLimitsTest, LimitsThatCannotBeReadAreSkipped) {
  MadeHost made;
  made.Remove("/proc/self/limits");
  const Findings findings = CheckLimits(made.host);
  EXPECT_EQ(findings.size(), 4U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kSkip) << finding.what;
  }
}

// Docker's own /dev/shm has 64 MiB.
TEST(CheckSharedMemoryTest, LessThanTheGradientsOfAllRanksIsAWarning) {
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckSharedMemory(made.host)).verdict, Verdict::kOk);
  made.host.shared_memory = Space{.total_bytes = 64 << 20, .free_bytes = 64 << 20};
  const Finding finding = OnlyOf(CheckSharedMemory(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.found,
            "64.0 MiB of 64.0 MiB free in /dev/shm; 2 ranks of ResNet-50 share 196.0 MiB");
  EXPECT_THAT(finding.mend, HasSubstr("--shm-size=1g"));
}

TEST(CheckSharedMemoryTest, EachGpuIsARank) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.devices.resize(8);
  made.host.shared_memory = Space{.total_bytes = 512 << 20, .free_bytes = 512 << 20};
  EXPECT_THAT(OnlyOf(CheckSharedMemory(made.host)).found,
              HasSubstr("8 ranks of ResNet-50 share 784.0 MiB"));
}

TEST(CheckSharedMemoryTest, NoneIsAWarning) {
  MadeHost made;
  made.host.shared_memory.reset();
  EXPECT_EQ(OnlyOf(CheckSharedMemory(made.host)).verdict, Verdict::kWarn);
}

TEST(CheckMpiTest, TheLauncherInThePathIsNamed) {
  MadeHost made;
  made.host.program_path = "/no/such:" + made.root() + "/usr/bin";
  EXPECT_EQ(OnlyOf(CheckMpi(made.host)).found, "in this build; " + made.root() + "/usr/bin/mpirun");
  made.Remove("/usr/bin/mpirun");
  EXPECT_EQ(OnlyOf(CheckMpi(made.host)).verdict, Verdict::kSkip);
  made.host.has_mpi = false;
  EXPECT_EQ(OnlyOf(CheckMpi(made.host)).found, "not in this build; ranks meet over TCP");
}

}  // namespace
}  // namespace millrace::cli::doctor
