#include "base/host.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/temp_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// A made-up cgroup tree and /proc/self/cgroup.
class ReadCoresTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  Cores Read() { return ReadCores(root_, root_ + "/self"); }

  const TempFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(ReadCoresTest, NoCgroupFilesMeansNoQuota) {
  const Cores cores = Read();
  EXPECT_EQ(cores.quota, 0);
  EXPECT_EQ(cores.usable, cores.affinity);
  EXPECT_NE(cores.source, "cgroup quota");
}

TEST_F(ReadCoresTest, Version2QuotaIsQuotaOverPeriod) {
  Write("/self", "0::/job\n");
  Write("/job/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota, 1.5);
}

TEST_F(ReadCoresTest, Version2MaxIsNoQuota) {
  Write("/self", "0::/job\n");
  Write("/job/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().quota, 0);
}

TEST_F(ReadCoresTest, Version2ParentsBindToo) {
  Write("/self", "0::/a/b/c\n");
  Write("/a/b/c/cpu.max", "800000 100000\n");
  Write("/a/b/cpu.max", "max 100000\n");
  Write("/a/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota, 3);
}

// In a container's own cgroup namespace the path is "/".
TEST_F(ReadCoresTest, Version2RootOfANamespaceIsRead) {
  Write("/self", "0::/\n");
  Write("/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota, 2);
}

TEST_F(ReadCoresTest, Version1QuotaIsRead) {
  Write("/self", "5:memory:/job\n4:cpu,cpuacct:/job\n");
  Write("/cpu/job/cpu.cfs_quota_us", "250000\n");
  Write("/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Read().quota, 2.5);
}

TEST_F(ReadCoresTest, Version1MinusOneIsNoQuota) {
  Write("/self", "4:cpuacct,cpu:/\n");
  Write("/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().quota, 0);
}

// Docker without a cgroup namespace names a path of the host that the container cannot see.
TEST_F(ReadCoresTest, Version1FallsBackToTheRootOfAForeignPath) {
  Write("/self", "4:cpu,cpuacct:/docker/0123\n");
  Write("/cpu/cpu.cfs_quota_us", "50000\n");
  Write("/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Read().quota, 0.5);
}

TEST_F(ReadCoresTest, OtherControllersDoNotCount) {
  Write("/self", "3:cpuset:/job\n");
  Write("/cpu/job/cpu.cfs_quota_us", "100000\n");
  Write("/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().quota, 0);
}

TEST_F(ReadCoresTest, AQuotaBelowOneStillUsesOneCore) {
  Write("/self", "0::/\n");
  Write("/cpu.max", "10000 100000\n");
  EXPECT_EQ(Read().usable, 1);
}

TEST_F(ReadCoresTest, ATightQuotaDecidesAndSaysSo) {
  if (ReadCores().affinity < 2) GTEST_SKIP() << "needs two processors";
  Write("/self", "0::/\n");
  Write("/cpu.max", "190000 100000\n");
  const Cores cores = Read();
  EXPECT_EQ(cores.usable, 1);
  EXPECT_EQ(cores.source, "cgroup quota");
}

TEST_F(ReadCoresTest, ALooseQuotaDoesNotDecide) {
  Write("/self", "0::/\n");
  Write("/cpu.max", "100000000 100000\n");
  const Cores cores = Read();
  EXPECT_EQ(cores.usable, cores.affinity);
  EXPECT_NE(cores.source, "cgroup quota");
}

TEST_F(ReadCoresTest, MalformedFilesMeanNoQuota) {
  Write("/self", "garbage\n0::/job\n7:\n::\n");
  for (const char* text : {"", "nonsense", "100000", "100000 0", "100000 -5", "x y"}) {
    Write("/job/cpu.max", text);
    EXPECT_EQ(Read().quota, 0) << text;
  }
}

TEST(ReadCores, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Cores cores = ReadCores();
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(cores.affinity, 1);
  EXPECT_EQ(cores.usable, 1);
}

TEST(Host, NamesTheProcessorAndItsVectors) {
  EXPECT_FALSE(CpuModel().empty());
  const std::string isa = WidestIsa();
  EXPECT_TRUE(isa == "avx512" || isa == "avx2" || isa == "sse4" || isa == "scalar") << isa;
}

TEST(Host, PeakRssCoversMemoryThatWasTouched) {
  const std::string touched(64 << 20, 'x');
  EXPECT_GE(PeakRssBytes(), static_cast<int64_t>(touched.size()));
}

TEST(HostTest, ProcessorTimeGrowsWithWork) {
  const double before = ProcessCpuSeconds();
  EXPECT_GT(before, 0);
  volatile uint64_t sum = 0;
  while (ProcessCpuSeconds() == before) sum = sum + 1;
  EXPECT_GT(ProcessCpuSeconds(), before);
}

class ReadMemoryLimitTest : public ReadCoresTest {
 protected:
  std::optional<uint64_t> Limit() { return ReadMemoryLimit(root_, root_ + "/self"); }
};

TEST_F(ReadMemoryLimitTest, NoCgroupFilesAndMaxMeanNoLimit) {
  EXPECT_EQ(Limit(), std::nullopt);
  Write("/self", "0::/job\n");
  Write("/job/memory.max", "max\n");
  EXPECT_EQ(Limit(), std::nullopt);
}

TEST_F(ReadMemoryLimitTest, TheLeastOnTheWayToTheRootBinds) {
  Write("/self", "0::/a/b\n");
  Write("/a/b/memory.max", "536870912\n");
  EXPECT_EQ(Limit(), 536870912u);
  Write("/a/memory.max", "268435456\n");
  EXPECT_EQ(Limit(), 268435456u);
  Write("/memory.max", "1073741824\n");
  EXPECT_EQ(Limit(), 268435456u);
}

// The kernel's number for "none" is the largest multiple of a page that a long holds.
TEST_F(ReadMemoryLimitTest, Version1IsReadToo) {
  Write("/self", "4:cpu,cpuacct:/job\n5:memory:/job\n0::/\n");
  Write("/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Limit(), std::nullopt);
  Write("/memory/memory.limit_in_bytes", "104857600\n");
  EXPECT_EQ(Limit(), 104857600u);
}

}  // namespace
}  // namespace millrace
