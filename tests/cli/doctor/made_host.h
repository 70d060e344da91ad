#ifndef MILLRACE_TESTS_CLI_DOCTOR_MADE_HOST_H_
#define MILLRACE_TESTS_CLI_DOCTOR_MADE_HOST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>

#include "cli/doctor/finding.h"
#include "cli/doctor/host.h"
#include "tests/temp_folder.h"

namespace millrace::cli::doctor {

// A machine of files in a temporary folder: 16 cores and 64 GiB on two NUMA nodes, and, if asked
// for, two GPUs in slots of PCIe generation 5 with 16 lanes. Nothing is wrong with it.
class MadeHost {
 public:
  static constexpr char kFirst[] = "0000:3a:00.0";
  static constexpr char kSecond[] = "0000:3b:00.0";
  static constexpr char kFirstPort[] = "0000:30:01.0";
  static constexpr char kSecondPort[] = "0000:30:02.0";

  MadeHost() {
    host.root = root_.path();
    host.cores = {.online = 16, .affinity = 16, .quota = 0, .usable = 16, .source = "online"};
    host.processors.resize(16);
    std::iota(host.processors.begin(), host.processors.end(), 0);
    host.shared_memory = Space{.total_bytes = uint64_t{32} << 30, .free_bytes = uint64_t{31} << 30};
    host.has_mpi = true;
    host.program_path = root_ / "usr/bin";
    host.decoding = {
        .images_per_second = 700, .image_bytes = 96 << 10, .height = 375, .width = 500};
    Write("/usr/bin/mpirun", "");
    Write("/proc/cpuinfo",
          "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx2 amx_bf16\n");
    Write("/proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   62914560 kB\n");
    Write("/proc/cmdline", "quiet\n");
    SetLimits("unlimited", "65536", "unlimited", "8388608");
    Write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    Write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    Write("/sys/devices/system/node/node0/cpulist", "0-7\n");
    Write("/sys/devices/system/node/node1/cpulist", "8-15\n");
  }

  // The soft limits of the process.
  void SetLimits(const std::string& core, const std::string& files, const std::string& memlock,
                 const std::string& stack) {
    Write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units\n"
          "Max stack size            " +
              stack +
              "           unlimited            bytes\n"
              "Max core file size        " +
              core +
              "            unlimited            bytes\n"
              "Max open files            " +
              files +
              "           65536                files\n"
              "Max locked memory         " +
              memlock + "         unlimited            bytes\n");
  }

  // The GPUs on the bus, and as the driver and its copies would report them.
  void AddGpus() {
    AddGpu(kFirstPort, kFirst, 0);
    AddGpu(kSecondPort, kSecond, 1);
    Write("/dev/nvidia0", "");
    Write("/dev/nvidia1", "");
    Write("/proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025\n");
    host.gpus.driver = "libcuda.so.1";
    host.gpus.driver_version = 13000;
    for (const char* address : {kFirst, kSecond}) {
      host.gpus.devices.push_back({.name = "NVIDIA H100",
                                   .memory_bytes = uint64_t{80} << 30,
                                   .capability = 90,
                                   .pci_address = address,
                                   .to_device = 55e9,
                                   .to_host = 53e9,
                                   .link_speed = "32.0 GT/s PCIe",
                                   .link_width = "16"});
    }
    host.gpus.pairs = {{.from = 0, .to = 1, .direct = 1, .bytes_per_second = 42e9},
                       {.from = 1, .to = 0, .direct = 1, .bytes_per_second = 41e9}};
    host.libraries.runtime = {.file = "libcudart.so.13", .version = "13.0", .cuda = 13000};
    host.libraries.cudnn = {.file = "libcudnn.so.9", .version = "9.19.0", .cuda = 13010};
    host.libraries.nccl = {.file = "libnccl.so.2", .version = "2.28.9"};
  }

  // The libraries of a machine that has none.
  void TakeLibraries() {
    host.libraries.runtime = {.error = "no CUDA runtime: cannot open"};
    host.libraries.cudnn = {.error = "no cuDNN: tried libcudnn.so.9 (the default): cannot open"};
    host.libraries.nccl = {.error = "no NCCL: tried libnccl.so.2 (the default): cannot open"};
    host.gpus.error = "no CUDA driver: tried libcuda.so.1 (the default): cannot open";
  }

  void Write(const std::string& path, std::string_view text) {
    const std::filesystem::path file = root_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void Remove(const std::string& path) { std::filesystem::remove_all(root_.path() + path); }
  // Writes a file of a GPU or a port.
  void WriteOf(const std::string& address, const std::string& name, std::string_view text) {
    Write("/sys/bus/pci/devices/" + address + "/" + name, text);
  }
  // Sets the link of a GPU, on the bus and amid copies.
  void SetLink(size_t gpu, const std::string& speed, const std::string& width) {
    const std::string& address = host.gpus.devices[gpu].pci_address;
    WriteOf(address, "current_link_speed", speed + "\n");
    WriteOf(address, "current_link_width", width + "\n");
    host.gpus.devices[gpu].link_speed = speed;
    host.gpus.devices[gpu].link_width = width;
  }
  // Sets the register of Access Control Services of a port.
  void SetAcs(const std::string& port, char control) {
    std::string config(4096, '\0');
    config.replace(0, 4, "\xde\x10\x01\x02");
    // First another capability, then the one that is looked for.
    config.replace(0x100, 4, std::string("\x01\x00\x01\x14", 4));
    config.replace(0x140, 4, std::string("\x0d\x00\x01\x00", 4));
    config[0x146] = control;
    WriteOf(port, "config", config);
  }

  const std::string& root() const { return root_.path(); }

  Host host;

 private:
  void AddGpu(const std::string& port, const std::string& gpu, int node) {
    namespace fs = std::filesystem;
    const std::string folder = "/sys/devices/pci0000:30/" + port;
    Write(folder + "/class", "0x060400\n");
    Write(folder + "/vendor", "0x8086\n");
    WriteLink(folder, "max");
    const std::string below = folder + "/" + gpu;
    Write(below + "/class", "0x030200\n");
    Write(below + "/vendor", "0x10de\n");
    Write(below + "/numa_node", std::to_string(node) + "\n");
    Write(below + "/config", std::string("\xde\x10\x30\x23", 4) + std::string(60, '\0'));
    WriteLink(below, "max");
    WriteLink(below, "current");
    const std::string bus = root_.path() + "/sys/bus/pci/devices/";
    fs::create_directories(bus);
    fs::create_directory_symlink(root_.path() + folder, bus + port);
    fs::create_directory_symlink(root_.path() + below, bus + gpu);
    SetAcs(port, 0);
  }
  void WriteLink(const std::string& folder, const std::string& which) {
    Write(folder + "/" + which + "_link_speed", "32.0 GT/s PCIe\n");
    Write(folder + "/" + which + "_link_width", "16\n");
  }

  TempFolder root_;
};

// The one finding of a check; a failure of the test if there are others.
inline Finding OnlyOf(const Findings& findings) {
  EXPECT_EQ(findings.size(), 1U);
  return findings.empty() ? Finding{} : findings.front();
}

// The finding about `what`; a failure of the test if there is none.
inline Finding FindingAbout(const Findings& findings, std::string_view what) {
  const auto found = std::ranges::find(findings, what, &Finding::what);
  if (found != findings.end()) return *found;
  ADD_FAILURE() << "no finding about " << what;
  return {};
}

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_TESTS_CLI_DOCTOR_MADE_HOST_H_
