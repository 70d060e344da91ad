#include "cli/flags/device.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

constexpr int kMaxOrdinal = 1023;

// Adds the number of a device, in decimal, to `devices`.
absl::Status AddOrdinal(std::string_view flag, std::string_view text, std::vector<int>& devices) {
  int ordinal = 0;
  const bool is_number = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }) &&
                         absl::SimpleAtoi(ToAbsl(text), &ordinal);
  if (!is_number || ordinal > kMaxOrdinal) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToAbsl(flag), ": '", ToAbsl(text), "' is no number of a device (0 to ", kMaxOrdinal, ")"));
  }
  if (std::ranges::find(devices, ordinal) != devices.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(flag), ": device ", ordinal, " is named twice"));
  }
  devices.push_back(ordinal);
  return absl::OkStatus();
}

}  // namespace

void AddDeviceFlag(Command command, DeviceFlags& flags) {
  command.Add("--device", flags.device,
              "The device that computes: cpu, cuda (the GPU numbered as the rank within its host) "
              "or cuda:N (default: the job's)");
}

void AddDeviceFlags(Command command, DeviceFlags& flags) {
  AddDeviceFlag(command, flags);
  command.Add("--devices", flags.devices,
              "GPUs of this process, as 0,1,2: a rank for each, as threads");
}

absl::Status SetDevices(const DeviceFlags& flags, std::string& device, std::vector<int>& devices) {
  constexpr std::string_view kCudaNumber = "cuda:";
  const std::string& given = flags.device;
  if (given.starts_with(kCudaNumber)) {
    device = "cuda";
    MILLRACE_RETURN_IF_ERROR(
        AddOrdinal("--device", std::string_view(given).substr(kCudaNumber.size()), devices));
  } else if (given.empty() || given == "cpu" || given == "cuda") {
    device = given;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", given, "' is none of cpu, cuda and cuda:N"));
  }
  if (flags.devices.empty()) return absl::OkStatus();
  if (given == "cpu" || !devices.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--devices goes with no --device ", given));
  }
  device = "cuda";
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(flags.devices, ','))) {
    MILLRACE_RETURN_IF_ERROR(AddOrdinal("--devices", text, devices));
  }
  return absl::OkStatus();
}

}  // namespace millrace::cli
