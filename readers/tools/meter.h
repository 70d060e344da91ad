#ifndef MILLRACE_READERS_TOOLS_METER_H_
#define MILLRACE_READERS_TOOLS_METER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "readers/verify.h"

namespace millrace::readers::internal {

// Counts the bytes of several files for one progress callback. Thread-safe.
class ScanMeter {
 public:
  ScanMeter(std::span<const std::string> files, const ScanProgress& progress);

 private:
  friend class FileMeter;
  void Add(int64_t bytes);

  const ScanProgress& progress_;
  std::vector<int64_t> sizes_;
  int64_t total_ = 0;
  Mutex mu_;
  int64_t done_ MILLRACE_GUARDED_BY(mu_) = 0;
};

// Counts the bytes of one of its files. Thread-compatible.
class FileMeter {
 public:
  // `meter` outlives it.
  FileMeter(ScanMeter& meter, size_t file) : meter_(meter), size_(meter.sizes_[file]) {}

  // `bytes` of the file are done.
  void Advance(uint64_t bytes);
  // All of it is.
  void Finish() { meter_.Add(size_ - told_); }

 private:
  ScanMeter& meter_;
  const int64_t size_;
  int64_t told_ = 0;
};

// Makes a DamagedPlace of `path` from `status`.
DamagedPlace ToDamagedPlace(const absl::Status& status, const std::string& path);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TOOLS_METER_H_
