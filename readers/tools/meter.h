#ifndef MILLRACE_READERS_TOOLS_METER_H_
#define MILLRACE_READERS_TOOLS_METER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "readers/verify.h"

namespace millrace::readers::internal {

// Counts the bytes of several files for one progress callback. Thread-compatible.
class ScanMeter {
 public:
  ScanMeter(std::span<const std::string> files, const ScanProgress& progress);

  // `bytes` of the current file are done.
  void InFile(uint64_t bytes);
  // The current file (number `file`) is done.
  void FinishFile(size_t file);

 private:
  const ScanProgress& progress_;
  std::vector<int64_t> sizes_;
  int64_t total_ = 0;
  int64_t before_ = 0;    // bytes of the files that are done
  int64_t reported_ = 0;  // the last that was told
};

// Makes a DamagedPlace of `path` from `status`.
DamagedPlace ToDamagedPlace(const absl::Status& status, const std::string& path);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TOOLS_METER_H_
