#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/libraries.h"
#include "cli/doctor/pci.h"

// NVIDIA's driver and its devices, by what the child process reported.

namespace millrace::cli::doctor {
namespace {

// A link carries headers and flow control too. Copies from page-locked memory that get less than
// this share of it have something in their way.
constexpr double kLeastShareOfLink = 0.6;
// Two devices that copy directly at less than this share of the slower one's copies to the host are
// better off going through the host.
constexpr double kLeastShareOfHost = 0.5;

struct Cure {
  const char* error;  // a part of the driver's message
  const char* mend;
};

// Names of cuda.h.
constexpr Cure kCures[] = {
    {"CUDA_ERROR_SYSTEM_NOT_READY",
     "systemctl start nvidia-fabricmanager (machines with NVSwitch need it)"},
    {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "reboot: the kernel still has the module of the driver before (cat "
     "/proc/driver/nvidia/version)"},
    {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "take the folder of cuda-compat out of LD_LIBRARY_PATH"},
    {"CUDA_ERROR_STUB_LIBRARY",
     "take the toolkit's folder of stubs out of LD_LIBRARY_PATH, or set MILLRACE_CUDA_LIBRARY"},
    {"wanted is", "update NVIDIA's driver (nvidia-smi shows its version)"},
    {"CUDA_ERROR_UNKNOWN", "modprobe nvidia_uvm; dmesg | grep -i -e nvrm -e xid"},
};

std::string CureOf(const std::string& error) {
  for (const Cure& cure : kCures) {
    if (error.find(cure.error) != std::string::npos) return cure.mend;
  }
  return "nvidia-smi; dmesg | grep -i -e nvrm -e xid";
}

std::string RateText(double bytes_per_second) {
  return absl::StrFormat("%.1f GB/s", bytes_per_second / 1e9);
}

// The version of the kernel's module: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05".
std::string ModuleVersion(const Host& host) {
  for (const std::string& word : WordsOf(LineOf(host, "/proc/driver/nvidia/version"))) {
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version) return word;
  }
  return "";
}

bool HasDeviceNodes(const Host& host) {
  return std::ranges::any_of(NamesIn(host, "/dev"), [](const std::string& name) {
    return name.rfind("nvidia", 0) == 0 && NumberOf(name.substr(6)).has_value();
  });
}

Finding DriverThatHangs(const GpuReport& report) {
  return Failed(
      "driver",
      absl::StrFormat("did not answer within %.0f s: %s", report.end.silent_seconds,
                      report.end.doing),
      "dmesg | grep -i -e xid -e nvrm names the fault; nvidia-smi --gpu-reset, or reboot. "
      "If the driver is only slow to start: nvidia-smi -pm 1, or --gpu-timeout 60");
}

// No driver: whether that is a fault depends on whether there is a GPU.
Finding NoDriver(const Host& host) {
  const std::string& error = host.gpus.error;
  const std::vector<std::string> gpus = NvidiaGpus(host);
  const bool is_loaded = error.rfind("no CUDA driver: tried", 0) != 0;
  if (gpus.empty() && !HasDeviceNodes(host)) {
    return Skipped("driver", is_loaded ? absl::StrCat("no GPU on this machine (", error, ")")
                                       : "no GPU on this machine");
  }
  const std::string which =
      gpus.empty() ? "a GPU" : absl::StrCat(gpus.size(), " GPUs (", gpus.front(), " first)");
  if (!is_loaded) {
    return Warned("driver", absl::StrCat(which, " without a driver: ", error),
                  "install NVIDIA's driver; in a container: docker run --gpus all, with NVIDIA's "
                  "container toolkit");
  }
  if (!HasDeviceNodes(host)) {
    return Failed("driver", absl::StrCat("no /dev/nvidia0, but ", which, ": ", error),
                  "docker run --gpus all, with NVIDIA's container toolkit; outside of containers: "
                  "nvidia-modprobe -u -c=0");
  }
  return Failed("driver", absl::StrCat(which, ": ", error), CureOf(error));
}

Findings SkipWithoutDevices(const Host& host, const std::string& what) {
  const bool hangs = host.gpus.end.silent_seconds > 0 || host.gpus.end.signal != 0;
  return {Skipped(what, hangs ? "the driver did not answer" : "no GPU")};
}

Finding DeviceFinding(const Host& host, size_t ordinal) {
  const DeviceReport& device = host.gpus.devices[ordinal];
  const std::string what = absl::StrCat("device ", ordinal);
  if (!device.pci_address.empty() && FellOffTheBus(host, device.pci_address)) {
    return Failed(what, absl::StrCat(device.pci_address, " fell off the bus"),
                  "dmesg | grep -i xid; power the machine off and on, and look at the card's power "
                  "and cooling");
  }
  if (!device.error.empty()) return Failed(what, device.error, CureOf(device.error));
  const std::string found =
      absl::StrCat(device.name, ", ", BytesText(static_cast<double>(device.memory_bytes)),
                   ", compute capability ", device.capability / 10, ".", device.capability % 10,
                   ", at ", device.pci_address);
  Finding finding = Fine(what, found);
  if (device.capability < host.kernel_capability) {
    finding = Warned(what,
                     absl::StrCat(found, "; the kernels of this build need ",
                                  host.kernel_capability / 10, ".", host.kernel_capability % 10),
                     absl::StrCat("build with -DCMAKE_CUDA_ARCHITECTURES=", device.capability));
  }
  finding.numbers = {{"memory_bytes", static_cast<double>(device.memory_bytes)},
                     {"capability", static_cast<double>(device.capability)}};
  return finding;
}

// The link on which the copies ran.
std::optional<PcieLink> LinkAmidCopies(const DeviceReport& device) {
  return LinkOf(device.link_speed, device.link_width);
}

Finding CopyFinding(const Host& host, size_t ordinal) {
  const DeviceReport& device = host.gpus.devices[ordinal];
  const std::string what = absl::StrCat("copies ", ordinal);
  if (device.to_device <= 0 || device.to_host <= 0) return Skipped(what, "not measured");
  const std::optional<PcieLink> link = LinkAmidCopies(device);
  std::string found = absl::StrCat(RateText(device.to_device), " to the device, ",
                                   RateText(device.to_host), " from it");
  Finding finding;
  if (!link) {
    finding = Fine(what, found + " (the speed of its link is unknown)");
  } else {
    absl::StrAppend(&found, ", of ", RateText(link->bytes_per_second()), " by ", LinkText(*link));
    const double slower = std::min(device.to_device, device.to_host);
    finding = slower < kLeastShareOfLink * link->bytes_per_second()
                  ? Warned(what, found,
                           "run on the device's NUMA node (see numa), with nothing else on the "
                           "device and the memory; then see iommu")
                  : Fine(what, found);
  }
  finding.numbers = {{"to_device_bytes_per_second", device.to_device},
                     {"to_host_bytes_per_second", device.to_host},
                     {"link_bytes_per_second", link ? link->bytes_per_second() : 0}};
  return finding;
}

std::string PairName(const PairReport& pair) { return absl::StrCat(pair.from, " to ", pair.to); }

// "0 to 1, 1 to 0 and 54 more".
std::string PairNames(const std::vector<PairReport>& pairs) {
  constexpr size_t kShown = 3;
  std::string names;
  for (size_t i = 0; i < std::min(pairs.size(), kShown); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", PairName(pairs[i]));
  }
  if (pairs.size() > kShown) absl::StrAppend(&names, " and ", pairs.size() - kShown, " more");
  return names;
}

// A row for each device that copies, a column for each that gets the bytes.
std::vector<std::string> PeerMatrix(const GpuReport& report) {
  std::string head = "GB/s ";
  for (size_t to = 0; to < report.devices.size(); ++to) absl::StrAppendFormat(&head, "%8d", to);
  std::vector<std::string> lines = {head};
  for (size_t from = 0; from < report.devices.size(); ++from) {
    std::string line = absl::StrFormat("%5d", from);
    for (size_t to = 0; to < report.devices.size(); ++to) {
      const auto pair = std::ranges::find_if(report.pairs, [&](const PairReport& each) {
        return each.from == static_cast<int>(from) && each.to == static_cast<int>(to);
      });
      const bool is_measured = pair != report.pairs.end() && pair->bytes_per_second > 0;
      if (is_measured) absl::StrAppendFormat(&line, "%8.1f", pair->bytes_per_second / 1e9);
      if (!is_measured) absl::StrAppendFormat(&line, "%8s", "-");
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<Number> PeerNumbers(const GpuReport& report) {
  std::vector<Number> numbers;
  for (const PairReport& pair : report.pairs) {
    numbers.push_back(
        {absl::StrCat(pair.from, "_to_", pair.to, "_bytes_per_second"), pair.bytes_per_second});
  }
  return numbers;
}

template <typename Is>
std::vector<PairReport> PairsThat(const GpuReport& report, const Is& is) {
  std::vector<PairReport> pairs;
  std::ranges::copy_if(report.pairs, std::back_inserter(pairs), is);
  return pairs;
}

bool IsSlow(const GpuReport& report, const PairReport& pair) {
  if (pair.direct == 0) return false;
  const auto slower_way = [&report](int ordinal) {
    const DeviceReport& device = report.devices[static_cast<size_t>(ordinal)];
    return std::min(device.to_device, device.to_host);
  };
  const double through_host = std::min(slower_way(pair.from), slower_way(pair.to));
  return pair.bytes_per_second < kLeastShareOfHost * through_host;
}

Finding PeerFinding(const GpuReport& report) {
  const std::string avoid = "set NCCL_P2P_DISABLE=1 until that is mended; see iommu and acs";
  const auto wrong = PairsThat(report, [](const PairReport& pair) { return pair.right == 0; });
  if (!wrong.empty()) return Failed("p2p", "bytes come wrong: " + PairNames(wrong), avoid);
  const auto broken = PairsThat(report, [](const PairReport& pair) { return !pair.error.empty(); });
  if (!broken.empty()) {
    return Failed("p2p", absl::StrCat(PairNames(broken), ": ", broken.front().error), avoid);
  }
  const auto slow =
      PairsThat(report, [&report](const PairReport& pair) { return IsSlow(report, pair); });
  if (!slow.empty()) {
    return Warned("p2p", "slower than half of the way through the host: " + PairNames(slow), avoid);
  }
  const auto indirect = PairsThat(report, [](const PairReport& pair) { return pair.direct == 0; });
  const std::string share = absl::StrCat(report.pairs.size() - indirect.size(), " of ",
                                         report.pairs.size(), " pairs copy directly");
  if (indirect.empty()) return Fine("p2p", share);
  return Warned("p2p", absl::StrCat(share, "; through the host: ", PairNames(indirect)),
                "nvidia-smi topo -p2p rw says why; NCCL then needs room in /dev/shm");
}

}  // namespace

Findings CheckDriver(const Host& host) {
  const GpuReport& report = host.gpus;
  if (report.end.silent_seconds > 0) return {DriverThatHangs(report)};
  if (report.end.signal != 0) {
    return {Failed("driver",
                   absl::StrCat("crashed with signal ", report.end.signal, ": ", report.end.doing),
                   "reinstall NVIDIA's driver, or name its library with MILLRACE_CUDA_LIBRARY")};
  }
  if (!report.error.empty()) return {NoDriver(host)};
  if (report.driver.empty()) return {Skipped("driver", "not asked")};
  const std::string module = ModuleVersion(host);
  Finding finding = Fine(
      "driver", absl::StrCat(module.empty() ? "" : absl::StrCat(module, ", "), "serves CUDA ",
                             CudaVersionText(report.driver_version), " (", report.driver, ")"));
  finding.numbers = {{"cuda_version", static_cast<double>(report.driver_version)}};
  return {finding};
}

Findings CheckDevices(const Host& host) {
  Findings findings;
  // Those that the driver does not list.
  for (const std::string& gpu : NvidiaGpus(host)) {
    const bool is_listed = std::ranges::any_of(
        host.gpus.devices,
        [&gpu](const DeviceReport& device) { return device.pci_address == gpu; });
    if (is_listed || !FellOffTheBus(host, gpu)) continue;
    findings.push_back(Failed("device " + gpu, "fell off the bus",
                              "dmesg | grep -i xid; power the machine off and on, and look at the "
                              "card's power and cooling"));
  }
  for (size_t i = 0; i < host.gpus.devices.size(); ++i) {
    findings.push_back(DeviceFinding(host, i));
  }
  return findings.empty() ? SkipWithoutDevices(host, "devices") : findings;
}

Findings CheckCopies(const Host& host) {
  if (host.gpus.devices.empty()) return SkipWithoutDevices(host, "copies");
  Findings findings;
  for (size_t i = 0; i < host.gpus.devices.size(); ++i) findings.push_back(CopyFinding(host, i));
  return findings;
}

Findings CheckPeers(const Host& host) {
  const GpuReport& report = host.gpus;
  if (report.devices.empty()) return SkipWithoutDevices(host, "p2p");
  if (report.devices.size() == 1) return {Skipped("p2p", "one GPU has no peer")};
  if (report.pairs.empty()) return {Skipped("p2p", "not measured")};
  Finding finding = PeerFinding(report);
  finding.details = PeerMatrix(report);
  finding.numbers = PeerNumbers(report);
  return {finding};
}

}  // namespace millrace::cli::doctor
