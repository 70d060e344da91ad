#include "base/host_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/affinity.h"
#include "base/host.h"
#include "tests/temp_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// A made-up /proc and cgroup tree.
class HostUseTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  HostUse Read() { return ReadHostUse(folder_ / "proc", folder_ / "cgroup"); }

  const TempFolder folder_;
};

TEST_F(HostUseTest, NumbersWithoutTheirFilesAreAbsent) {
  const HostUse use = Read();
  EXPECT_GT(use.now_seconds, 0);
  EXPECT_GT(use.process_seconds(), 0);
  EXPECT_FALSE(use.device_read_bytes || use.call_read_bytes || use.throttled_seconds ||
               use.cpu_pressure_seconds || use.io_pressure_seconds || use.memory_pressure_seconds ||
               use.busy_core_seconds || use.stolen_core_seconds || use.foreign_core_seconds());
}

TEST_F(HostUseTest, BytesReadAreThoseOfProcSelfIo) {
  Write("proc/self/io", "rchar: 900\nwchar: 5\nsyscr: 3\nsyscw: 4\nread_bytes: 700\n");
  const HostUse use = Read();
  EXPECT_EQ(use.device_read_bytes, 700);
  EXPECT_EQ(use.call_read_bytes, 900);
}

TEST_F(HostUseTest, Version2IsThrottledByItselfOrByAParent) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("cgroup/a/b/cpu.stat", "usage_usec 9\nthrottled_usec 100000\n");
  EXPECT_DOUBLE_EQ(*Read().throttled_seconds, 0.1);
  Write("cgroup/a/cpu.stat", "nr_throttled 3\nthrottled_usec 300000\n");
  EXPECT_DOUBLE_EQ(*Read().throttled_seconds, 0.3);
}

TEST_F(HostUseTest, Version1CountsNanoseconds) {
  Write("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  Write("cgroup/cpu/job/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 250000000\n");
  EXPECT_DOUBLE_EQ(*Read().throttled_seconds, 0.25);
}

TEST_F(HostUseTest, PressureIsOfTheCgroupOrElseOfTheHost) {
  const std::string some = "some avg10=0.00 avg60=0.10 avg300=0.00 total=";
  Write("proc/pressure/cpu", some + "4000000\nfull avg10=0.00 total=9\n");
  Write("proc/pressure/io", some + "5000000\n");
  Write("proc/self/cgroup", "0::/job\n");
  Write("cgroup/job/cpu.pressure", some + "1500000\nfull avg10=0.00 total=9\n");
  Write("cgroup/job/memory.pressure", "full avg10=0.00 total=9\n");
  const HostUse use = Read();
  EXPECT_DOUBLE_EQ(*use.cpu_pressure_seconds, 1.5);
  EXPECT_DOUBLE_EQ(*use.io_pressure_seconds, 5);
  EXPECT_EQ(use.memory_pressure_seconds, std::nullopt);
}

TEST_F(HostUseTest, OnlyProcessorsOfThisProcessCount) {
  const int mine = UsableProcessors().front();
  const std::string name = "cpu" + std::to_string(mine);
  Write("proc/stat", "cpu  9 9 9 9 9 9 9 9 9 9\n" + name + " 100 20 30 999 999 4 6 50 0 0\n" +
                         "cpu99999 7 7 7 7 7 7 7 7 0 0\nintr 1\n");
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  const HostUse use = Read();
  EXPECT_DOUBLE_EQ(*use.busy_core_seconds, 160 / tick);
  EXPECT_DOUBLE_EQ(*use.stolen_core_seconds, 50 / tick);
}

TEST_F(HostUseTest, MalformedFilesAreAbsentNumbers) {
  Write("proc/self/io", "read_bytes: x\nrchar:\n");
  Write("proc/self/cgroup", "0::/\n::\nnonsense\n");
  Write("proc/stat", "cpu0 1 2\ncpu1\n\n");
  Write("proc/pressure/cpu", "some avg10=0.00\n");
  Write("cgroup/cpu.stat", "throttled_usec\n");
  const HostUse use = Read();
  EXPECT_FALSE(use.device_read_bytes || use.call_read_bytes || use.throttled_seconds ||
               use.cpu_pressure_seconds || use.busy_core_seconds);
}

TEST_F(HostUseTest, TheDifferenceIsOfTheNumbersThatBothHave) {
  HostUse earlier, later;
  earlier.now_seconds = 10;
  later.now_seconds = 12.5;
  earlier.user_seconds = 1;
  later.user_seconds = 3;
  earlier.device_read_bytes = 100;
  later.device_read_bytes = 350;
  later.call_read_bytes = 9;
  earlier.busy_core_seconds = 100;
  later.busy_core_seconds = 105;
  const HostUse between = UseBetween(earlier, later);
  EXPECT_DOUBLE_EQ(between.now_seconds, 2.5);
  EXPECT_DOUBLE_EQ(between.process_seconds(), 2);
  EXPECT_EQ(between.device_read_bytes, 250);
  EXPECT_EQ(between.call_read_bytes, std::nullopt);
  EXPECT_DOUBLE_EQ(*between.foreign_core_seconds(), 3);
}

TEST(HostUse, AShareIsOfTheProcessAndNotOfTheHost) {
  HostUse use;
  use.now_seconds = 8;
  use.user_seconds = 4;
  use.system_seconds = 2;
  use.voluntary_switches = 10;
  use.involuntary_switches = 6;
  use.device_read_bytes = 700;
  use.throttled_seconds = 1;
  use.io_pressure_seconds = 5;
  use.busy_core_seconds = 12;
  const HostUse share = ShareOf(use, 2);
  EXPECT_EQ(share.now_seconds, 8);
  EXPECT_EQ(share.user_seconds, 2);
  EXPECT_EQ(share.system_seconds, 1);
  EXPECT_EQ(share.voluntary_switches, 5);
  EXPECT_EQ(share.involuntary_switches, 3);
  EXPECT_EQ(share.device_read_bytes, 350);
  EXPECT_EQ(share.call_read_bytes, std::nullopt);
  EXPECT_EQ(share.throttled_seconds, 1);
  EXPECT_EQ(share.io_pressure_seconds, 5);
  EXPECT_EQ(share.busy_core_seconds, 12);
}

TEST(HostUse, TheSystemTellsOfThisProcess) {
  const HostUse before = ReadHostUse();
  volatile uint64_t sum = 0;
  const double begin = ProcessCpuSeconds();
  while (ProcessCpuSeconds() < begin + 0.02) sum = sum + 1;
  const HostUse use = UseBetween(before, ReadHostUse());
  EXPECT_GT(use.process_seconds(), 0);
  EXPECT_GE(use.now_seconds, 0);
  EXPECT_GE(use.foreign_core_seconds().value_or(0), 0);
}

}  // namespace
}  // namespace millrace
