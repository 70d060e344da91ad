#ifndef MILLRACE_CLI_DOCTOR_PCI_H_
#define MILLRACE_CLI_DOCTOR_PCI_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/host.h"

// Devices of the PCI bus, as sysfs has them: /sys/bus/pci/devices.

namespace millrace::cli::doctor {

// The addresses of NVIDIA's GPUs, such as "0000:3b:00.0", whether there is a driver or not.
std::vector<std::string> NvidiaGpus(const Host& host);
// The addresses of the bridges between parts of the bus.
std::vector<std::string> PciBridges(const Host& host);

// The path of a device's file or folder `name`, from the host's root.
std::string PciPath(const std::string& address, std::string_view name);

// True if the device does not answer on the bus any more: all bits that are read of it are set.
bool FellOffTheBus(const Host& host, const std::string& address);

// The NUMA node of a device; nullopt: unknown.
std::optional<int> NodeOf(const Host& host, const std::string& address);

// A PCIe link.
struct PcieLink {
  double giga_transfers = 0;  // per second and lane: 32 for generation 5
  int lanes = 0;

  int generation() const;
  // The bytes per second that it carries in one direction, packets' headers included.
  double bytes_per_second() const;
};

// Of sysfs' texts, such as "32.0 GT/s PCIe" and "16"; nullopt: they name none.
std::optional<PcieLink> LinkOf(std::string_view speed, std::string_view width);
// The link of a device as it is now, and the fastest that both the device and the port above it can
// have. nullopt: unknown.
std::optional<PcieLink> CurrentLink(const Host& host, const std::string& address);
std::optional<PcieLink> FastestLink(const Host& host, const std::string& address);
// "gen 5 x16".
std::string LinkText(const PcieLink& link);

// True if a bridge sends copies between the devices below it up to the processor, by its control
// register of Access Control Services (PCI Express Base Specification). nullopt: it has none, or
// only root may read it.
std::optional<bool> RedirectsPeers(const Host& host, const std::string& bridge);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_PCI_H_
