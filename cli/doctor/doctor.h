#ifndef MILLRACE_CLI_DOCTOR_DOCTOR_H_
#define MILLRACE_CLI_DOCTOR_DOCTOR_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/finding.h"
#include "cli/doctor/host.h"

// `millrace doctor`: the measurements of a machine, and then the checks, which judge them.

namespace millrace::cli::doctor {

struct DoctorOptions {
  std::vector<std::string> data;  // files, patterns and folders whose disk is measured
  // The time of all measurements together: of decoding a tenth, of disks and of copies between
  // devices four tenths each.
  double seconds = 10;
  // The time within which each call of a driver or a foreign library must come back.
  double gpu_timeout_seconds = 10;
  size_t copy_bytes = size_t{32} << 20;  // GpuProbeOptions::copy_bytes
  std::chrono::steady_clock::time_point (*now)() = &std::chrono::steady_clock::now;
  // Called several times a second, if the system lets it. May be empty.
  std::function<void()> tick = {};
  // Replaces gpu_timeout_seconds, as ChildWatch::gives_up. Empty: does not.
  std::function<bool(std::string_view last_line, double silent_seconds)> gives_up = {};
};

// Measures, and leaves it in `host`. The devices are asked in a child process, before this process
// has threads.
void Measure(const DoctorOptions& options, Host& host);

// Returns the findings of all checks.
Findings Examine(const Host& host);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_DOCTOR_H_
