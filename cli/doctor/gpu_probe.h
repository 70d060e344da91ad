#ifndef MILLRACE_CLI_DOCTOR_GPU_PROBE_H_
#define MILLRACE_CLI_DOCTOR_GPU_PROBE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "cli/doctor/gpu_report.h"

namespace millrace::cli::doctor {

struct GpuProbeOptions {
  std::string root = {};  // Host::root, where the state of the PCIe links is read
  // The most time of all measured copies together, but for one of each kind. Those of one kind
  // between the same two take at most a second.
  double copy_seconds = 4;
  size_t copy_bytes = size_t{32} << 20;  // of one copy; the device and the host need so much each
  std::chrono::steady_clock::time_point (*now)() = &std::chrono::steady_clock::now;
};

// Asks the CUDA driver about itself and the devices, and measures copies between host and devices
// and between each two devices. `send` gets the report as it is before each call that may hang, and
// in the end. For a child process.
void ProbeGpus(const GpuProbeOptions& options, const std::function<void(const GpuReport&)>& send);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_GPU_PROBE_H_
