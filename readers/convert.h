#ifndef MILLRACE_READERS_CONVERT_H_
#define MILLRACE_READERS_CONVERT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cancels.h"
#include "readers/container.h"
#include "readers/convert_schema.h"
#include "readers/image_codec.h"
#include "readers/record.h"

namespace millrace::readers {

// The format of the input or of the output. kTfRecord, kText and kFixedLength hold records of any
// bytes, which are copied as they are if both sides do. All others hold samples of named features;
// a record of TFRecord is then a tf.train.Example, and a record of kText or kFixedLength the value
// of one feature.
enum class ConvertFormat {
  kTfRecord,
  kText,         // lines
  kFixedLength,  // records of one length
  kCsv,          // rows (RFC 4180); a feature is a column
  kJsonLines,    // an object in each line; a feature is a member
  kTar,          // samples of WebDataset; a feature is a member, `__key__` the name
  kIdx,          // images and labels (the MNIST format), with TF-slim's names (below)
  kImages,       // a folder of images by class, or as input a tar of them, with the same names
};

// "tfrecord", "text", "fixed_length", "csv", "jsonl", "tar", "idx", "images".
std::string_view ConvertFormatName(ConvertFormat format);

// The treatment of records that cannot be converted: damaged ones, images that are none, values
// that are not as declared, and records that the output cannot hold.
enum class ConvertDamage {
  kFail,  // all are told, and nothing is written
  kSkip,  // all are told and left out
};

// The part that is looked at of images that are not encoded anew.
enum class ConvertCheck {
  kHeader,  // kind and size
  kDecode,  // all pixels
};

struct ConvertOptions {
  ConvertFormat from = ConvertFormat::kImages;
  ConvertFormat to = ConvertFormat::kTfRecord;

  // Input of kIdx and kImages: the IDX file of images, the folder, or the tar.
  std::string images;
  // The IDX file of labels; empty: the name of `images` with labels-idx1 for images-idx3.
  std::string labels;
  // Options for kImages, as in ImageLabelOptions.
  std::optional<int64_t> label;  // for images whose paths tell no class
  std::vector<std::string> classes = {};
  bool strict = false;  // true to refuse what has images of kinds that are not read
  std::function<void(std::string_view)> warn = {};

  // Input of all other formats: the files, in their order (ExpandFiles).
  std::vector<std::string> files;
  Compression input_compression = Compression::kAuto;
  // Layout of kFixedLength and kCsv; `kind` is ignored. The header of CSV names the columns, which
  // may then stand in any order. CSV is always written with commas and a header.
  ContainerOptions container;
  uint64_t max_record_bytes = uint64_t{1} << 30;

  // Features that are read of kCsv, kJsonLines (both need them) and kTar; all others are left out.
  // Empty for kTar: all members, as bytes, but `cls` as int64. kText and kFixedLength have none:
  // they are one feature of bytes. For other inputs: the columns of a kCsv or kJsonLines that is
  // written; empty: those of the first record that can be converted.
  std::vector<ConvertFeature> schema;
  bool allow_nan = false;  // true if NaN, Infinity and -Infinity are numbers of kJsonLines
  // Name of the feature (bytes) that a record of kText or kFixedLength becomes. Empty: records are
  // copied as bytes, or cannot be converted.
  std::string feature;
  // Features that are taken, in this order, with their new names; empty: all.
  std::vector<std::pair<std::string, std::string>> features;
  // Encodes images anew if its recoding() is not empty: those of the feature `image_feature`, else
  // of the first of image/encoded, jpg, jpeg and png that is taken of a sample; image/format,
  // image/height and image/width follow. All these are the names that were read. A jpg, jpeg or png
  // without a new name in `features` is named after its new format. Needed for kIdx as output.
  std::shared_ptr<const ImageCodec> codec;
  std::string image_feature;
  // Check of the images that `codec` would encode anew; kDecode needs it. nullopt: the header of
  // kImages, and nothing of other inputs.
  std::optional<ConvertCheck> check_images = {};

  ConvertDamage on_damage = ConvertDamage::kFail;
  // Called with the error of each record that cannot be converted, in their order. Empty: nobody is
  // told.
  std::function<void(const absl::Status&)> tell_bad = {};
  std::string quarantine_file;  // of these records (readers/quarantine.h); empty: none

  std::string output_prefix;  // shards are PREFIX-00000-of-00008.tfrecord; its folder must exist
  // Ending of the shards' names: that of the format, or another one that tells it, with that of the
  // compression or without: ".tfrecord.gz". Empty: that of the format alone.
  std::string suffix = {};
  int num_shards = 1;  // 1 to 99999, at most one per record
  // Seed that shuffles the records (base/permutation.h); unset: they keep the source's order. A
  // shuffled tar of images is held in memory; of other files at most 1 GiB of the blocks that are
  // read repeatedly.
  std::optional<uint64_t> shuffle_seed;
  int64_t max_memory_bytes = int64_t{4} << 30;  // for a shuffled tar of images
  Compression compression = Compression::kNone;
  int compression_level = 6;  // zlib's or zstd's, 1 to 9
  bool overwrite = false;     // true to replace the shards of this prefix that exist

  // Asked while the input is opened and indexed, and by the calling thread after each record and
  // while it waits for one; of URLs also by the thread that fetches them.
  Cancels cancels = {};

  // performance only: results are the same for every value
  int threads = 1;  // that read, parse and encode; one more writes
  // As in RecordSourceOptions; the second is its `progress`.
  std::string index_folder;
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;

  absl::Status Validate() const;
};

struct ConvertReport {
  std::vector<std::string> files;  // the shards, in order
  uint64_t num_records = 0;
  uint64_t num_left_out = 0;             // records that could not be converted
  uint64_t num_images_not_read = 0;      // images of other kinds than JPEG and PNG, of kImages
  uint64_t file_bytes = 0;               // size of all shards on disk
  std::vector<std::string> class_names;  // for kIdx and kImages, by label; empty: not known
  std::map<int64_t, uint64_t> records_per_label;  // for these two inputs
};

// Called after each record with how many are done, and how many there are.
using ConvertProgress = std::function<void(int64_t done_records, int64_t total_records)>;

// Writes the records of one container into another; docs/convert.md has the rules. Nothing is lost
// in silence: a value that the output cannot hold is an error that names the record. Records that
// cannot be converted do not end the run, so that it tells all of them; the error is that of the
// first. Without a good one among the first 1,000 it ends there, and so it does where memory ends,
// which says nothing about a record.
//
// Images have TF-slim's names: image/encoded, image/format ("png" or "jpeg"), image/class/label,
// image/class/text (where known), image/filename, image/height, image/width. JPEG and PNG bytes
// pass through unchanged, unless the codec encodes them anew.
//
// Shard s of N gets the block from s * n / N up to (s + 1) * n / N of n records in (shuffled)
// order: reading the shards one after the other gives that order back. The same options and input
// give the same bytes.
//
// Shards are written to a hidden folder beside their place and moved there after the last one is
// whole, and PREFIX.manifest.json behind them (shards with records, bytes and labels; classes;
// columns). On failure nothing has changed. A conversion that is killed leaves its folder, and so
// does one that `cancels` ends, if its first shard is whole: the same conversion of the same input
// takes over the shards that are whole there, any other to the same prefix removes it. `overwrite`
// replaces all shards of the prefix, also of sets of another number of shards or another format:
// they are moved to the hidden folder first, moved back when a move fails, and removed when the new
// set is in place. A folder with replaced shards that a killed process left stays until an
// `overwrite` succeeds. Several processes may convert at once.
//   INVALID_ARGUMENT     a bad option, or one that does not apply; the label rules do not fit; more
//                        shards than records; the output cannot hold a record
//   ALREADY_EXISTS       a shard of the prefix, in a set of any number of shards, exists and
//                        `overwrite` is off; a folder has the name of a shard
//   RESOURCE_EXHAUSTED   no memory, thread or open file is left, or no space on the disk
//   CANCELLED            `cancels` returned true
//   DATA_LOSS, NOT_FOUND, ...  the input is damaged or missing, or a file cannot be written
//   any of the others for a record, with its RecordError, unless `on_damage` is kSkip and one is
//   good
absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONVERT_H_
