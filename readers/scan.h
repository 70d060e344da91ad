#ifndef MILLRACE_READERS_SCAN_H_
#define MILLRACE_READERS_SCAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/container.h"
#include "readers/record.h"

namespace millrace::readers {

// The contents of a path.
struct ScanKind {
  bool is_folder = false;           // true if it holds images, each a record
  ContainerOptions container = {};  // else
};
// The kind of `path`: `container`, else what its name tells, and a folder holds images by class.
ScanKind KindOf(const std::string& path, const std::optional<ContainerOptions>& container);

// A record, while it is looked at.
struct ScannedRecord {
  std::string_view file;  // for an image in a folder its own
  uint64_t offset = 0;    // begin of its frame in the inflated file
  uint64_t ordinal = 0;
  std::string_view payload;
};

// Functions that are called in the order of the file; each may be empty. False ends the scan.
struct ScanVisitor {
  // The names in the first row of CSV (ContainerOptions::has_header), before its first record, or
  // why there are none. An error ends the scan as one of reading does.
  std::function<absl::Status(const absl::StatusOr<std::vector<std::string>>& names)> on_columns =
      {};
  std::function<bool(const ScannedRecord&)> on_record = {};
  std::function<bool(const absl::Status&)> on_damage = {};  // DATA_LOSS with RecordError
  std::function<void(uint64_t bytes)> advanced = {};        // bytes on disk that are done
};

// The names that files of CSV give their columns, file after file.
class SameColumns {
 public:
  // Compares the names of the next file, or why there are none. Their order does not count.
  //   INVALID_ARGUMENT  a name is there twice, or the first file has other names
  //   other             the error that stands in place of `names`
  absl::Status Check(const std::string& file,
                     const absl::StatusOr<std::vector<std::string>>& names);

 private:
  std::string first_file_;
  std::vector<std::string> first_;  // the names of the first good file
};

// A file that could not be opened or read. That says nothing about what is in it.
struct UnreadableFile {
  std::string file;
  std::string message;
};

struct ScanFacts {
  uint64_t file_bytes = 0;                       // on disk; of a folder, those of its images
  Compression compression = Compression::kNone;  // never kAuto
  bool whole = false;                            // true if it was read to its end
  // Why it could not be opened or read; that says nothing about what is in it.
  absl::Status unreadable;
  std::vector<UnreadableFile> unreadable_images;  // of a folder
  std::vector<std::string> notes;  // images that are not read, pages in place of text
};

struct ScanOptions {
  Compression compression = Compression::kAuto;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  std::optional<ContainerOptions> container = {};  // nullopt: KindOf tells
};

// Reads a file, or a folder of images, record by record from its begin to its end. Behind damage it
// goes on with the next good record (TfRecordReaderOptions::resync; damage/parts.h for other
// containers), but not where the compression is another one than was declared. Of images the header
// is read; one that cannot be opened or read is passed over, unless it is for want of memory or of
// open files.
ScanFacts Scan(const std::string& path, const ScanOptions& options, const ScanVisitor& visitor);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_SCAN_H_
