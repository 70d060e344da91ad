#ifndef MILLRACE_CLI_FLAGS_DEVICE_H_
#define MILLRACE_CLI_FLAGS_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/flags/command_line.h"
#include "trainer/train.h"

namespace millrace::cli {

// The flags that say which device computes.
struct DeviceFlags {
  std::string device;   // "cpu", "cuda" or "cuda:2"
  std::string devices;  // "0,1,3"
};

// Adds the flags. `flags` must live until the command line was parsed.
void AddDeviceFlags(Command command, DeviceFlags& flags);

// Sets `device` and `devices` of `options` by the flags.
//   INVALID_ARGUMENT  a value is no device, or a device is named twice
absl::Status SetDevices(const DeviceFlags& flags, trainer::TrainOptions& options);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_DEVICE_H_
