#ifndef MILLRACE_READERS_REPAIR_H_
#define MILLRACE_READERS_REPAIR_H_

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
#include "readers/verify.h"

namespace millrace::readers {

// The state of a place that a quarantine names.
struct PlaceCheck {
  RecordError listed;
  bool damaged = false;     // true if `message` tells of a fault of the record
  bool unreadable = false;  // true if it tells why the file cannot be read; nothing else is known
  // The fault that is found there now, without the place; or the quarantine's own, if the record's
  // bytes are whole and a pipeline found fault with what they hold (a feature, an image, a value).
  std::string message;
};

struct VerifyPlacesOptions {
  // nullopt: each file's name tells (ContainerOfName); a .jpg, .jpeg or .png is an image of a
  // folder.
  std::optional<ContainerOptions> container = {};
  uint64_t max_record_bytes = uint64_t{1} << 30;
};

// Reads the records of a quarantine again. Of a plain TFRecord file only these records are read,
// and of images the headers; other files are read from front to end.
//   value  one for each place, in order; a file that cannot be read is damage of its places
std::vector<PlaceCheck> VerifyPlaces(std::span<const RecordError> places,
                                     const VerifyPlacesOptions& options = {});

struct RepairOptions {
  // nullopt: each file's name tells (ContainerOfName).
  std::optional<ContainerOptions> container = {};
  Compression compression = Compression::kAuto;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  // True to keep records of which only the framing is wrong: the payload is a tf.train.Example
  // whose CRC does not match, or the payload's CRC matches and that of its length does not. For
  // plain files.
  bool reframe = false;
  // Records of a quarantine: those whose bytes are whole, but that a pipeline could not use, are
  // left out too. Exception: records behind lost bytes of a stream that is no TFRecord
  // (damage/parts.h).
  std::vector<RecordError> listed = {};
  // Called now and then with the bytes that are done, and those of all files. May be empty.
  ScanProgress progress = {};
};

struct RepairedFile {
  std::string file;
  std::string out;
  uint64_t num_kept = 0;  // including those that were framed anew
  uint64_t num_reframed = 0;
  std::vector<DamagedPlace> dropped;  // in order of offsets
};

// Copies files without their damaged records to `folder`, which it makes, under the files' own
// names. Each copy is whole or not there; the files themselves stay as they are. Behind lost
// framing it goes on at the next good record, in a damaged gzip or zstd stream at the next member
// or frame. damage/parts.h says what counts as damage of other containers than TFRecord. `on_file`
// (may be empty) is called after each file that was copied.
//   INVALID_ARGUMENT  two files have one name, `folder` is where a file lies, or nothing can be
//                     left out of files of this container; nothing was written
//   ALREADY_EXISTS    the folder has a file of that name; nothing was written
//   DATA_LOSS         the row that names the columns of a CSV file is damaged
//   other             a file cannot be read or written
absl::StatusOr<std::vector<RepairedFile>> Repair(
    std::span<const std::string> files, const std::string& folder, const RepairOptions& options,
    const std::function<void(const RepairedFile&)>& on_file = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_REPAIR_H_
