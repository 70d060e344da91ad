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

// What became of a place that a quarantine names.
struct PlaceCheck {
  RecordError listed;
  bool damaged = false;
  // What is wrong there now. Where the record's bytes are whole and a pipeline found fault with
  // what they hold (a feature, an image, a value), what the quarantine says.
  std::string message;
};

struct VerifyPlacesOptions {
  // Nullopt: what each file's name tells (ContainerOfName); a .jpg, .jpeg or .png is an image of a
  // folder.
  std::optional<ContainerOptions> container = {};
  uint64_t max_record_bytes = uint64_t{1} << 30;
};

// Reads the records of a quarantine again: those of a plain TFRecord file where they lie and no
// others, of images the headers; other files are gone through.
//   value  one for each, in order; a file that cannot be read is damage of its places
std::vector<PlaceCheck> VerifyPlaces(std::span<const RecordError> places,
                                     const VerifyPlacesOptions& options = {});

struct RepairOptions {
  // Nullopt: what each file's name tells (ContainerOfName).
  std::optional<ContainerOptions> container = {};
  Compression compression = Compression::kAuto;
  uint64_t max_record_bytes = uint64_t{1} << 30;
  // Keeps records whose framing alone is wrong: the payload is a tf.train.Example and its CRC does
  // not match, or its CRC matches and that of its length does not. Plain files only.
  bool reframe = false;
  // Of a quarantine: records whose bytes are whole, and that a pipeline could not use, are left out
  // too, but for those behind lost bytes of a stream that is no TFRecord (shard_parts.h).
  std::vector<RecordError> listed = {};
};

struct RepairedFile {
  std::string file;
  std::string out;
  uint64_t num_kept = 0;  // those that were framed anew included
  uint64_t num_reframed = 0;
  std::vector<DamagedPlace> dropped;  // in order of offsets
};

// Writes copies of files without their damaged records to `folder`, which it makes, under
// the files' own names; each is whole or not there. Behind lost framing it goes on at the next good
// record, in a damaged gzip or zstd stream at the next member or frame. The files themselves are
// left alone. Of other containers than TFRecord shard_parts.h says what is damage. `on_file` (may
// be empty) is called with each file that was copied: those before one that cannot be.
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
