#ifndef MILLRACE_READERS_INSPECT_H_
#define MILLRACE_READERS_INSPECT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "readers/container.h"
#include "readers/record.h"
#include "readers/verify.h"
#include "readers/view_record.h"

namespace millrace::readers {

// The smallest and the largest of some values.
template <typename T>
struct Range {
  std::optional<T> min;
  std::optional<T> max;

  void Add(T value) {
    if (!min.has_value() || value < *min) min = value;
    if (!max.has_value() || value > *max) max = value;
  }
  friend bool operator==(const Range&, const Range&) = default;
};

// Facts about one feature over all the files.
struct FeatureReport {
  std::string key;
  uint64_t place = 0;  // its place in the order in which features were met
  Widening widening = Widening::kNone;
  uint64_t num_bytes = 0;   // records in which it is a bytes list
  uint64_t num_floats = 0;  // records in which it is a float list
  uint64_t num_ints = 0;    // records in which it is an int64 list
  uint64_t num_none = 0;    // records in which it is there, but is no list
  Range<uint64_t> num_values;
  Range<int64_t> ints;
  Range<float> floats;  // NaN aside
  uint64_t num_nan = 0;
  Range<uint64_t> byte_lengths;
  std::map<std::string, uint64_t, std::less<>> image_formats;  // by magic: how many values
  Range<int64_t> image_heights;                                // heights of PNG and JPEG images
  Range<int64_t> image_widths;
  Range<int64_t> image_channels;
  uint64_t num_bad_images = 0;  // values with an image's magic whose header cannot be read

  // Number of records that have the feature.
  uint64_t num_records() const { return num_bytes + num_floats + num_ints + num_none; }
  // "bytes", "float", "int64", "none", or "mixed" when records disagree and none of their types
  // holds the values of all.
  std::string_view kind() const;
};

struct ShardReport {
  std::string file;
  std::string holds;  // for people: "rows of CSV", "images"
  Compression compression = Compression::kNone;
  uint64_t file_bytes = 0;
  bool whole = false;        // true if it was read to the end, or to max_records
  bool all_read = false;     // true if it was read to the end
  uint64_t num_records = 0;  // intact records
  uint64_t payload_bytes = 0;
  Range<uint64_t> record_bytes;
  uint64_t num_damaged = 0;           // damaged places
  std::vector<DamagedPlace> damages;  // the first few
  std::string unreadable;             // why it, or an image in it, cannot be read; "" if it can
  uint64_t num_not_examples = 0;      // records that are no tf.train.Example, row, object or sample
  uint64_t num_with_nan = 0;          // JSON lines that parse with allow_nan only
  std::vector<std::string> notes;     // images that are not read, pages in place of text

  double mean_record_bytes() const {
    return num_records == 0 ? 0
                            : static_cast<double>(payload_bytes) / static_cast<double>(num_records);
  }
};

struct InspectOptions {
  Compression compression = Compression::kAuto;
  std::optional<ContainerOptions> container = {};  // nullopt: KindOf tells (readers/scan.h)
  uint64_t max_record_bytes = uint64_t{1} << 30;
  uint64_t max_records = 0;          // read per file; 0: all
  size_t max_features = 10000;       // distinct keys in the report
  size_t max_damages_per_file = 10;  // kept in the report; all are counted
};

struct InspectReport {
  std::vector<ShardReport> shards;       // in the order of the files
  ShardReport total;                     // sums; no file, compression, damages or unreadable
  uint64_t num_unreadable = 0;           // shards
  std::vector<FeatureReport> features;   // by key
  uint64_t num_unfollowed_features = 0;  // occurrences of keys beyond max_features

  // True if every byte that was read is good and every file could be read.
  bool ok() const { return total.num_damaged == 0 && num_unreadable == 0; }
};

// Reads the files, which may be folders of images, and reports their contents. Damage is counted
// and passed over as Verify does; a file that cannot be read counts as unreadable, not as damaged.
//   value             the report, damage or not
//   INVALID_ARGUMENT  no files
absl::StatusOr<InspectReport> Inspect(std::span<const std::string> files,
                                      const InspectOptions& options = {},
                                      const ScanProgress& progress = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INSPECT_H_
