#ifndef MILLRACE_CLI_FLAGS_DEVICE_H_
#define MILLRACE_CLI_FLAGS_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/flags/command_line.h"

namespace millrace::cli {

// The flags that say which device computes.
struct DeviceFlags {
  std::string device;   // "cpu", "cuda" or "cuda:2"
  std::string devices;  // "0,1,3"
};

// Adds --device, or also --devices. `flags` must live until the command line was parsed.
void AddDeviceFlag(Command command, DeviceFlags& flags);
void AddDeviceFlags(Command command, DeviceFlags& flags);

// Sets the fields of those names of TrainOptions or InferenceOptions by the flags.
//   INVALID_ARGUMENT  a value is no device, or a device is named twice
absl::Status SetDevices(const DeviceFlags& flags, std::string& device, std::vector<int>& devices);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_DEVICE_H_
