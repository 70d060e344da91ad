#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "cli/doctor/checks.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CheckCoresTest, AQuotaIsNamed) {
  MadeHost made;
  made.host.cores = {
      .online = 16, .affinity = 16, .quota = 4.5, .usable = 4, .source = "cgroup quota"};
  const Finding finding = OnlyOf(CheckCores(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_EQ(finding.found, "4 of 16 usable (cgroup quota 4.5), A Processor");
}

TEST(CheckCoresTest, OneCoreAndNoMoreCoresThanGpusAreTooFew) {
  MadeHost made;
  made.host.cores = {.online = 16, .affinity = 1, .quota = 0, .usable = 1, .source = "affinity"};
  EXPECT_EQ(OnlyOf(CheckCores(made.host)).verdict, Verdict::kWarn);
  made.host.cores.usable = 2;
  EXPECT_EQ(OnlyOf(CheckCores(made.host)).verdict, Verdict::kOk);
  made.AddGpus();
  const Finding finding = OnlyOf(CheckCores(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.found, "2 of 16 usable (affinity), A Processor; 2 GPUs need more");
}

TEST(CheckVectorsTest, AProcessorWithoutAvx2IsSlow) {
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckVectors(made.host)).found, "avx2, amx_bf16");
  made.Write("/proc/cpuinfo", "flags\t\t: fpu sse4_2\n");
  const Finding finding = OnlyOf(CheckVectors(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.mend, HasSubstr("-cpu host"));
  made.Remove("/proc/cpuinfo");
  EXPECT_EQ(OnlyOf(CheckVectors(made.host)).verdict, Verdict::kSkip);
}

TEST(CheckMemoryTest, ALimitThatShrinksTheBudgetIsAWarning) {
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckMemory(made.host)).found, "60.0 GiB of 64.0 GiB available");
  made.host.memory_limit_bytes = uint64_t{3} << 30;
  EXPECT_EQ(OnlyOf(CheckMemory(made.host)).verdict, Verdict::kOk);
  made.host.memory_limit_bytes = uint64_t{2} << 30;
  const Finding finding = OnlyOf(CheckMemory(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("the cgroup's limit is 2.0 GiB; pipelines get less"));
}

TEST(CheckMemoryTest, MemoryThatOthersHoldIsAWarning) {
  MadeHost made;
  made.Write("/proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   1048576 kB\n");
  EXPECT_EQ(OnlyOf(CheckMemory(made.host)).verdict, Verdict::kWarn);
  made.Write("/proc/meminfo", "MemTotal:       many kB\n");
  EXPECT_EQ(OnlyOf(CheckMemory(made.host)).verdict, Verdict::kSkip);
}

TEST(CheckHugePagesTest, NeverIsAWarning) {
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckHugePages(made.host)).found, "madvise");
  made.Write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(OnlyOf(CheckHugePages(made.host)).verdict, Verdict::kWarn);
  made.Remove("/sys/kernel/mm");
  EXPECT_EQ(OnlyOf(CheckHugePages(made.host)).verdict, Verdict::kSkip);
}

TEST(CheckNumaTest, NodesAreListedWithTheirCoresAndGpus) {
  MadeHost made;
  made.AddGpus();
  const Finding finding = OnlyOf(CheckNuma(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.details, ElementsAre("node 0: 8 of 8 cores, GPUs 0000:3a:00.0",
                                           "node 1: 8 of 8 cores, GPUs 0000:3b:00.0"));
}

TEST(CheckNumaTest, AGpuOnANodeWithoutUsableCoresIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.host.processors = {0, 1, 2, 3};
  const Finding finding = OnlyOf(CheckNuma(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.found, "2 nodes; no usable core is on node 1, where GPU 0000:3b:00.0 is");
  EXPECT_EQ(finding.mend, "numactl --cpunodebind=1 --membind=1 millrace ...");
}

TEST(CheckNumaTest, AGpuWhoseNodeIsUnknownIsOnNone) {
  MadeHost made;
  made.AddGpus();
  made.WriteOf(MadeHost::kSecond, "numa_node", "-1\n");
  made.host.processors = {0, 1, 2, 3};
  EXPECT_EQ(OnlyOf(CheckNuma(made.host)).verdict, Verdict::kOk);
}

TEST(CheckNumaTest, OneNodeIsFineAndNoneUnknown) {
  MadeHost made;
  made.Remove("/sys/devices/system/node/node1");
  EXPECT_EQ(OnlyOf(CheckNuma(made.host)).found, "one node");
  made.Remove("/sys/devices/system/node");
  EXPECT_EQ(OnlyOf(CheckNuma(made.host)).verdict, Verdict::kSkip);
}

TEST(CheckClockTest, ASlowSourceIsAWarningWithTheWayOut) {
  const std::string folder = "/sys/devices/system/clocksource/clocksource0";
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckClock(made.host)).found, "tsc");
  made.Write(folder + "/current_clocksource", "hpet\n");
  made.Write(folder + "/available_clocksource", "hpet acpi_pm\n");
  EXPECT_THAT(OnlyOf(CheckClock(made.host)).mend, HasSubstr("dmesg"));
  made.Write(folder + "/available_clocksource", "tsc hpet acpi_pm\n");
  const Finding finding = OnlyOf(CheckClock(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.mend, "echo tsc | sudo tee " + folder + "/current_clocksource");
  made.Remove(folder);
  EXPECT_EQ(OnlyOf(CheckClock(made.host)).verdict, Verdict::kSkip);
}

}  // namespace
}  // namespace millrace::cli::doctor
