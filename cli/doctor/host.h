#ifndef MILLRACE_CLI_DOCTOR_HOST_H_
#define MILLRACE_CLI_DOCTOR_HOST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host.h"
#include "cli/doctor/decode_rate.h"
#include "cli/doctor/disk_rate.h"
#include "cli/doctor/gpu_report.h"

namespace millrace::cli::doctor {

struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// A machine as the checks see it: a folder with its /proc, /sys and /dev, what only calls of the
// system tell, and the measurements. Tests make one of their own.
struct Host {
  std::string root = {};          // the folder that holds /proc, /sys and /dev; empty: this machine
  std::string program_path = {};  // PATH of the environment
  Cores cores = {};
  std::vector<int> processors = {};                 // the numbers of the usable ones
  std::optional<uint64_t> memory_limit_bytes = {};  // of the cgroup; nullopt: none
  std::optional<Space> shared_memory = {};          // of /dev/shm; nullopt: there is none
  bool has_mpi = false;                             // true if this build has MPI
  // The lowest compute capability of this build's own kernels, 90 for 9.0; 0: it has none.
  int kernel_capability = 0;

  GpuReport gpus = {};
  LibrariesReport libraries = {};
  DecodeRate decoding = {};
  std::vector<DiskRate> disks = {};
};

// This machine, without the measurements.
Host ThisHost();

// Files of the host, by their paths from its root. The first line of a file without its end, and a
// whole file; empty: it cannot be read.
std::string LineOf(const Host& host, const std::string& path);
std::string TextOf(const Host& host, const std::string& path);
// The sorted names in a folder; none if it cannot be read.
std::vector<std::string> NamesIn(const Host& host, const std::string& folder);

// The words of `text` between blanks.
std::vector<std::string> WordsOf(std::string_view text);
// The numbers of a list of the kernel's: "0-3,8" is {0, 1, 2, 3, 8}.
std::vector<int> NumbersOf(std::string_view list);
// The decimal number that `text` is; nullopt: it is none.
std::optional<int64_t> NumberOf(std::string_view text);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_HOST_H_
