#ifndef MILLRACE_READERS_VERIFY_H_
#define MILLRACE_READERS_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/record_error.h"
#include "readers/container.h"
#include "readers/record.h"
#include "readers/scan.h"

namespace millrace::readers {

// Called now and then with file bytes done and in all, by any thread, one at a time. A compressed
// file counts when it is done.
using ScanProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// A damaged place of a file.
struct DamagedPlace {
  RecordError error;  // file, and offset, ordinal and reason where they are known
  std::string message;
};

struct VerifyOptions {
  Compression compression = Compression::kAuto;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  // True if each payload of TFRecord must be a valid tf.train.Example.
  bool check_examples = false;
  // nullopt: each file's name tells (ContainerOfName), and a folder holds images by class.
  std::optional<ContainerOptions> container = {};
  size_t max_places = 1000;  // places kept in the report; all are counted

  // performance only: results are the same for every value
  int threads = 0;  // threads that read a file each; 0: one for each usable core
};

struct VerifyReport {
  uint64_t num_files = 0;
  uint64_t num_damaged_files = 0;
  uint64_t num_records = 0;  // intact records
  uint64_t payload_bytes = 0;
  uint64_t num_damaged = 0;                // damaged places
  std::vector<DamagedPlace> places;        // in order of files and offsets
  std::vector<UnreadableFile> unreadable;  // files, and images of folders: not looked at
  std::vector<std::string> notes;          // images that are not read, pages in place of text

  bool ok() const { return num_damaged == 0 && unreadable.empty(); }
};

// Reads every byte of the files, several at a time, and collects what is wrong. After damage it
// goes on with the next good record (TfRecordReaderOptions::resync; damage/parts.h for other
// containers), after a file that cannot be read, which is no damage, with the next file. It also
// counts the cells of rows of CSV, and reads the headers of images in a folder.
//   value             the report, damage or not
//   INVALID_ARGUMENT  no files
absl::StatusOr<VerifyReport> Verify(std::span<const std::string> files,
                                    const VerifyOptions& options = {},
                                    const ScanProgress& progress = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_VERIFY_H_
