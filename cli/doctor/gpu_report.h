#ifndef MILLRACE_CLI_DOCTOR_GPU_REPORT_H_
#define MILLRACE_CLI_DOCTOR_GPU_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// The answers of foreign libraries: of NVIDIA's driver about its devices, and of NCCL, cuDNN and
// the CUDA runtime about themselves. A child process asks them (child.h), and sends one of these
// reports, as a line of JSON, before each call that may hang.

namespace millrace::cli::doctor {

// The end of the child that made a report.
struct ProbeEnd {
  std::string doing = {};     // the call under way when the report was sent; empty: it was the last
  double silent_seconds = 0;  // how long the child was waited for until it was killed; 0: it ended
  int signal = 0;             // the signal by which it ended itself; 0: none
};

struct LibraryReport {
  std::string file = {};     // as it was loaded; empty: none was
  std::string version = {};  // "9.19.0"
  int cuda = 0;              // the version of CUDA that it needs: 13000 is 13.0; 0: unknown
  int elsewhere = 0;         // 1 if it lies in a place where nothing looks for it by itself
  int limited = 0;           // 1 if it is too old for a part of what is asked of it
  std::string error = {};    // why there is none
};

struct LibrariesReport {
  LibraryReport runtime = {};
  LibraryReport cudnn = {};
  LibraryReport nccl = {};
  ProbeEnd end = {};
};

struct DeviceReport {
  std::string name = {};
  uint64_t memory_bytes = 0;
  int capability = 0;            // compute capability: 90 is 9.0
  std::string pci_address = {};  // "0000:3b:00.0"
  double to_device = 0;          // bytes per second from page-locked memory; 0: not measured
  double to_host = 0;            // the same the other way
  std::string link_speed = {};   // current_link_speed of sysfs amid a copy; empty: unknown
  std::string link_width = {};   // current_link_width
  std::string error = {};        // of the calls about it, or of its context and copies
};

struct PairReport {
  int from = 0;
  int to = 0;
  int direct = 0;               // 1 if the first device reaches the second's memory
  int right = 1;                // 0 if bytes came wrong
  double bytes_per_second = 0;  // 0: not measured
  std::string error = {};
};

struct GpuReport {
  std::string driver = {};  // the library, as it was loaded; empty: it was not, or did not start
  int driver_version = 0;   // the newest CUDA that it serves: 12040 is 12.4
  std::string error = {};   // why there is no driver
  std::vector<DeviceReport> devices = {};
  std::vector<PairReport> pairs = {};
  ProbeEnd end = {};
};

std::string ToJson(const GpuReport& report);
std::string ToJson(const LibrariesReport& report);
//   DATA_LOSS  the text is no JSON object
absl::StatusOr<GpuReport> GpuReportOfJson(std::string_view text);
absl::StatusOr<LibrariesReport> LibrariesReportOfJson(std::string_view text);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_GPU_REPORT_H_
