#include "pipeline/device/device.h"
#include "pipeline/device_feed.h"

// Stands in for cuda.cc in a build without CUDA.

namespace millrace::pipeline {

absl::StatusOr<std::shared_ptr<Device>> MakeCudaDevice(int) {
  return absl::UnimplementedError("this build has no CUDA parts");
}

std::string BuiltInDevices() { return "none built in"; }

bool HasDeviceParts() { return false; }

}  // namespace millrace::pipeline
