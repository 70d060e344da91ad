#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/pci.h"

// The PCIe links of GPUs, and what stands between two of them.

namespace millrace::cli::doctor {
namespace {

// The GPUs that the driver lists; without a driver, those on the bus.
std::vector<std::string> GpusOf(const Host& host) {
  if (host.gpus.devices.empty()) return NvidiaGpus(host);
  std::vector<std::string> gpus;
  for (const DeviceReport& device : host.gpus.devices) gpus.push_back(device.pci_address);
  return gpus;
}

// The link as it was amid a copy; nullopt: unknown.
std::optional<PcieLink> BusyLink(const Host& host, const std::string& address) {
  const auto device = std::ranges::find(host.gpus.devices, address, &DeviceReport::pci_address);
  if (device == host.gpus.devices.end()) return std::nullopt;
  return LinkOf(device->link_speed, device->link_width);
}

// The driver's number of a GPU, or its address where there is no driver.
std::string PcieName(const Host& host, const std::string& address) {
  const auto& devices = host.gpus.devices;
  const auto device = std::ranges::find(devices, address, &DeviceReport::pci_address);
  if (device == devices.end()) return "pcie " + address;
  return absl::StrCat("pcie ", device - devices.begin());
}

Finding PcieFinding(const Host& host, const std::string& address) {
  const std::string what = PcieName(host, address);
  const std::optional<PcieLink> busy = BusyLink(host, address);
  const std::optional<PcieLink> now = busy ? busy : CurrentLink(host, address);
  const std::optional<PcieLink> fastest = FastestLink(host, address);
  if (!now || !fastest) return Skipped(what, "the system does not tell the speed of its link");
  const std::string found = absl::StrCat(LinkText(*now), " of ", LinkText(*fastest));
  const bool is_narrow = now->lanes < fastest->lanes;
  const bool is_slow = now->giga_transfers < fastest->giga_transfers;
  Finding finding = Fine(what, found);
  if (is_narrow || (busy && is_slow)) {
    finding = Warned(what, found,
                     absl::StrCat("lspci -vv -s ", address,
                                  " | grep Lnk; seat the card anew, use a slot with all lanes, "
                                  "and set the slot's generation to auto in the firmware"));
  } else if (is_slow) {
    finding.found += "; an idle link saves power, so its speed is not judged";
  }
  finding.numbers = {{"bytes_per_second", now->bytes_per_second()},
                     {"fastest_bytes_per_second", fastest->bytes_per_second()}};
  return finding;
}

enum class Translation { kOff, kPassedThrough, kOn };

// Whether the IOMMU translates the addresses of a device. Kernels before 5.11 do not tell for each.
Translation TranslationOf(const Host& host, const std::string& address) {
  const std::string type = LineOf(host, PciPath(address, "iommu_group/type"));
  if (!type.empty()) {
    return type == "identity" ? Translation::kPassedThrough : Translation::kOn;
  }
  if (NamesIn(host, "/sys/class/iommu").empty()) return Translation::kOff;
  const std::vector<std::string> flags = WordsOf(LineOf(host, "/proc/cmdline"));
  const bool passes = std::ranges::find(flags, "iommu=pt") != flags.end();
  return passes ? Translation::kPassedThrough : Translation::kOn;
}

constexpr char kAcsCommand[] = "sudo lspci -vvv | grep ACSCtl";

}  // namespace

Findings CheckPcie(const Host& host) {
  Findings findings;
  for (const std::string& gpu : GpusOf(host)) {
    if (!FellOffTheBus(host, gpu)) findings.push_back(PcieFinding(host, gpu));
  }
  if (findings.empty()) return {Skipped("pcie", "no GPU")};
  return findings;
}

// Copies between two GPUs whose addresses are translated go up to the processor, or hang.
Findings CheckIommu(const Host& host) {
  const std::vector<std::string> gpus = GpusOf(host);
  if (gpus.empty()) return {Skipped("iommu", "no GPU")};
  std::vector<std::string> translated;
  bool is_off = true;
  for (const std::string& gpu : gpus) {
    const Translation translation = TranslationOf(host, gpu);
    if (translation == Translation::kOn) translated.push_back(gpu);
    is_off = is_off && translation == Translation::kOff;
  }
  if (translated.empty()) {
    return {Fine("iommu", is_off ? "off" : "passes the GPUs' addresses through")};
  }
  const std::string found =
      absl::StrCat("translates the addresses of ", absl::StrJoin(translated, ", "));
  if (gpus.size() < 2) return {Fine("iommu", found + ", which has no peer")};
  return {Warned("iommu", found + "; copies between GPUs are slow, wrong or hang",
                 "add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in "
                 "/etc/default/grub, then update-grub and reboot), or turn it off in the firmware; "
                 "a virtual machine's stays on")};
}

Findings CheckAcs(const Host& host) {
  if (GpusOf(host).size() < 2) return {Skipped("acs", "fewer than two GPUs")};
  std::vector<std::string> redirecting;
  size_t num_known = 0;
  for (const std::string& bridge : PciBridges(host)) {
    const std::optional<bool> redirects = RedirectsPeers(host, bridge);
    num_known += redirects.has_value() ? 1 : 0;
    if (redirects.value_or(false)) redirecting.push_back(bridge);
  }
  if (num_known == 0) {
    return {Skipped("acs", "only root may read it, or no bridge has it",
                    absl::StrCat(kAcsCommand,
                                 ": ReqRedir+ sends copies between GPUs through the "
                                 "processor"))};
  }
  if (redirecting.empty()) return {Fine("acs", "no bridge redirects copies between GPUs")};
  return {Warned(
      "acs",
      absl::StrCat(redirecting.size(), " of ", num_known,
                   " bridges send copies between GPUs through the processor: ",
                   absl::StrJoin(redirecting, ", ")),
      absl::StrCat("turn ACS off in the firmware, or after each boot: setpci -s ",
                   redirecting.front(), " ECAP_ACS+0x6.w=0000; a virtual machine's stays on"))};
}

}  // namespace millrace::cli::doctor
