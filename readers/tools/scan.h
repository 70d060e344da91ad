#ifndef MILLRACE_READERS_TOOLS_SCAN_H_
#define MILLRACE_READERS_TOOLS_SCAN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "readers/record.h"
#include "readers/verify.h"

namespace millrace::readers::internal {

struct ScanOptions {
  Compression compression = Compression::kAuto;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  uint64_t max_records = UINT64_MAX;  // records of a file after which reading stops
  bool resync = false;                // true as in TfRecordReaderOptions
};

struct FileFacts {
  uint64_t file_bytes = 0;
  Compression compression = Compression::kNone;  // compression of the file, never kAuto
  bool whole = false;  // true if it was read to its end, or to max_records
  // Why the file could not be opened or read; that says nothing about what is in it.
  absl::Status unreadable;
};

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

// Reads `path` from its first to its last byte. Damage goes to `on_damage`; reading goes on after a
// bad payload, with `resync` after lost framing too, and ends after anything else.
FileFacts ScanFile(const std::string& path, const ScanOptions& options, ScanMeter& meter,
                   const std::function<void(const Record&)>& on_record,
                   const std::function<void(const absl::Status&)>& on_damage);

// Makes a DamagedPlace of `path` from `status`.
DamagedPlace ToDamagedPlace(const absl::Status& status, const std::string& path);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TOOLS_SCAN_H_
