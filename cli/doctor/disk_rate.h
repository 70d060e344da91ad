#ifndef MILLRACE_CLI_DOCTOR_DISK_RATE_H_
#define MILLRACE_CLI_DOCTOR_DISK_RATE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::cli::doctor {

// How the page cache was kept out of a measurement.
enum class Bypass {
  kDirect,   // O_DIRECT
  kDropped,  // the pages were dropped first, as far as nothing else uses them
  kMemory,   // the files lie in memory (tmpfs, ramfs)
};

struct DiskRate {
  std::string path = {};  // as the user named it
  uint64_t num_files = 0;
  uint64_t file_bytes = 0;  // of all files together
  uint64_t read_bytes = 0;
  double seconds = 0;
  Bypass bypass = Bypass::kDirect;
  std::string error = {};  // why it was not measured

  double bytes_per_second() const {
    return seconds > 0 ? static_cast<double>(read_bytes) / seconds : 0;
  }
};

struct DiskRateOptions {
  double seconds = 4;
  int threads = 8;
  std::chrono::steady_clock::time_point (*now)() = &std::chrono::steady_clock::now;
  std::function<void()> tick = {};  // called while files are read; may be empty
};

// The regular files that `path` stands for: those below a folder, sorted, or those that a pattern
// of readers::ExpandFiles names, but for URLs.
//   INVALID_ARGUMENT  URLs, or a folder without a file
//   NOT_FOUND, other  as readers::ExpandFiles
absl::StatusOr<std::vector<std::string>> DataFilesOf(const std::string& path);

// Reads the files of `path` past the page cache, in pieces of 1 MiB, each thread a stretch of the
// whole of its own, until the time is over or all was read once.
DiskRate MeasureDiskRate(const std::string& path, const DiskRateOptions& options);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_DISK_RATE_H_
