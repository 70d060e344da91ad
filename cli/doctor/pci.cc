#include "cli/doctor/pci.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::cli::doctor {
namespace {

constexpr char kDevices[] = "/sys/bus/pci/devices";

std::vector<std::string> DevicesWhere(const Host& host, bool (*is_one)(std::string_view vendor,
                                                                       std::string_view kind)) {
  std::vector<std::string> addresses;
  for (const std::string& address : NamesIn(host, kDevices)) {
    const std::string vendor = LineOf(host, PciPath(address, "vendor"));
    if (is_one(vendor, LineOf(host, PciPath(address, "class")))) addresses.push_back(address);
  }
  return addresses;
}

// The little-endian number of `bytes` bytes at `at`; 0 beyond the end.
uint32_t FieldAt(std::string_view config, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes && at + i < config.size(); ++i) {
    value |= uint32_t{static_cast<uint8_t>(config[at + i])} << (8 * i);
  }
  return value;
}

// The place of the extended capability `id` in a configuration space; 0: it has none.
size_t ExtendedCapability(std::string_view config, uint32_t id) {
  constexpr size_t kFirst = 0x100;
  constexpr int kMost = 64;  // a list that goes round in a circle ends
  size_t at = kFirst;
  for (int i = 0; i < kMost && at >= kFirst && at + 4 <= config.size(); ++i) {
    const uint32_t header = FieldAt(config, at, 4);
    if ((header & 0xffff) == id) return at;
    at = header >> 20;
  }
  return 0;
}

std::optional<PcieLink> LinkFrom(const Host& host, const std::string& folder,
                                 std::string_view which) {
  return LinkOf(LineOf(host, absl::StrCat(folder, "/", ToAbsl(which), "_link_speed")),
                LineOf(host, absl::StrCat(folder, "/", ToAbsl(which), "_link_width")));
}

// The folder of the port above a device, from the host's root; empty: unknown.
std::string PortAbove(const Host& host, const std::string& address) {
  std::error_code error;
  const auto real = std::filesystem::canonical(host.root + PciPath(address, ""), error);
  const auto root = std::filesystem::canonical(host.root.empty() ? "/" : host.root, error);
  if (error) return "";
  const auto inside = real.parent_path().lexically_relative(root);
  return "/" + inside.string();
}

}  // namespace

std::vector<std::string> NvidiaGpus(const Host& host) {
  return DevicesWhere(host, [](std::string_view vendor, std::string_view kind) {
    return vendor == "0x10de" && (kind.starts_with("0x0300") || kind.starts_with("0x0302"));
  });
}

std::vector<std::string> PciBridges(const Host& host) {
  return DevicesWhere(host, [](std::string_view /*vendor*/, std::string_view kind) {
    return kind.starts_with("0x0604");
  });
}

std::string PciPath(const std::string& address, std::string_view name) {
  return absl::StrCat(kDevices, "/", address, "/", ToAbsl(name));
}

bool FellOffTheBus(const Host& host, const std::string& address) {
  const std::string config = TextOf(host, PciPath(address, "config"));
  return config.size() >= 4 && FieldAt(config, 0, 4) == 0xffffffff;
}

std::optional<int> NodeOf(const Host& host, const std::string& address) {
  const auto node = NumberOf(LineOf(host, PciPath(address, "numa_node")));
  if (!node || *node < 0) return std::nullopt;
  return static_cast<int>(*node);
}

int PcieLink::generation() const {
  // 2.5, 5, 8, 16, 32, 64
  if (giga_transfers < 8) return giga_transfers < 5 ? 1 : 2;
  return static_cast<int>(std::lround(std::log2(giga_transfers)));
}

// Of 10 bits that generations 1 and 2 send, 8 are data; of 130 that 3 to 5 send, 128. Generation 6
// sends 242 bytes of data in flits of 256.
double PcieLink::bytes_per_second() const {
  double share = 128.0 / 130;
  if (generation() <= 2) share = 0.8;
  if (generation() >= 6) share = 242.0 / 256;
  return giga_transfers * 1e9 / 8 * share * lanes;
}

std::optional<PcieLink> LinkOf(std::string_view speed, std::string_view width) {
  const auto lanes = NumberOf(width);
  const double transfers = std::strtod(std::string(speed).c_str(), nullptr);
  if (!lanes || *lanes < 1 || *lanes > 32 || !(transfers >= 2.5 && transfers <= 256)) {
    return std::nullopt;
  }
  return PcieLink{.giga_transfers = transfers, .lanes = static_cast<int>(*lanes)};
}

std::optional<PcieLink> CurrentLink(const Host& host, const std::string& address) {
  return LinkFrom(host, PciPath(address, ""), "current");
}

std::optional<PcieLink> FastestLink(const Host& host, const std::string& address) {
  std::optional<PcieLink> link = LinkFrom(host, PciPath(address, ""), "max");
  const std::string port = PortAbove(host, address);
  const std::optional<PcieLink> above = port.empty() ? std::nullopt : LinkFrom(host, port, "max");
  if (link && above) {
    link->giga_transfers = std::min(link->giga_transfers, above->giga_transfers);
    link->lanes = std::min(link->lanes, above->lanes);
  }
  return link;
}

std::string LinkText(const PcieLink& link) {
  return absl::StrCat("gen ", link.generation(), " x", link.lanes);
}

std::optional<bool> RedirectsPeers(const Host& host, const std::string& bridge) {
  constexpr uint32_t kAcs = 0x000d;
  constexpr size_t kControl = 6;             // of the register, from the capability's start
  constexpr uint32_t kRequest = 1U << 2;     // P2P Request Redirect Enable
  constexpr uint32_t kCompletion = 1U << 3;  // P2P Completion Redirect Enable
  const std::string config = TextOf(host, PciPath(bridge, "config"));
  const size_t acs = ExtendedCapability(config, kAcs);
  if (acs == 0) return std::nullopt;
  return (FieldAt(config, acs + kControl, 2) & (kRequest | kCompletion)) != 0;
}

}  // namespace millrace::cli::doctor
