#ifndef MILLRACE_READERS_CONVERT_H_
#define MILLRACE_READERS_CONVERT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "readers/record.h"

namespace millrace::readers {

enum class ConvertInput {
  kIdx,     // a pair of IDX files (image_source.h: OpenIdxImages)
  kImages,  // a folder of images, or a tar of them (OpenImageFolder, OpenImageTar)
};

struct ConvertOptions {
  ConvertInput input = ConvertInput::kImages;
  std::string images;  // the IDX file of images, the folder, or the tar
  // The IDX file of labels; empty: the name of `images` with labels-idx1 for images-idx3.
  std::string labels;
  std::optional<int64_t> label;  // for images whose paths tell no class (ImageLabelOptions)

  std::string output_prefix;  // shards are PREFIX-00000-of-00008.tfrecord; its folder must exist
  int num_shards = 1;         // 1 to 99999, at most one per image
  // Records keep the source's order; a seed shuffles them first (base/permutation.h). A shuffled
  // tar is held in memory.
  std::optional<uint64_t> shuffle_seed;
  int64_t max_memory_bytes = int64_t{4} << 30;  // for that
  Compression compression = Compression::kNone;
  int compression_level = 6;  // zlib's 1 to 9
  bool overwrite = false;     // replace the shards of this prefix that exist

  absl::Status Validate() const;
};

struct ConvertReport {
  std::vector<std::string> files;  // the shards, in order
  uint64_t num_images = 0;
  uint64_t file_bytes = 0;               // of all shards on disk
  std::vector<std::string> class_names;  // by label; empty: not known
  std::map<int64_t, uint64_t> images_per_label;
};

// Called after each image with how many are written, and how many there are.
using ConvertProgress = std::function<void(int64_t done_images, int64_t total_images)>;

// Writes labelled images as TFRecord shards of tf.train.Example, with TF-slim's names:
// image/encoded, image/format ("png" or "jpeg"), image/class/label, image/class/text (where known),
// image/filename, image/height, image/width. JPEG and PNG bytes pass through unchanged.
//
// Of n images in (shuffled) order shard s of N gets the block from s * n / N up to (s + 1) * n / N:
// reading the shards one after the other gives that order back. The same options and input give the
// same bytes.
//
// Shards are written to a hidden folder beside their place and moved there after the last one is
// whole, and PREFIX.manifest.json behind them (shards with records, bytes and labels; classes). On
// failure nothing has changed. A conversion that is killed leaves its folder: the same conversion of
// the same input takes over the shards that are whole there, any other to the same prefix removes
// it. `overwrite` replaces all shards of the prefix, also of sets of another number of shards: they
// are moved to the hidden folder first, moved back when a move fails, and removed when the new set
// is in place. A folder with replaced shards that a killed process left stays until an `overwrite`
// succeeds. Several processes may convert at once.
//   INVALID_ARGUMENT     a bad option; the label rules do not fit; more shards than images
//   ALREADY_EXISTS       a shard of the prefix, in a set of any number of shards, exists and
//                        `overwrite` is off; a folder has the name of a shard
//   DATA_LOSS, NOT_FOUND, ...  the input is damaged or missing, or a file cannot be written
absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONVERT_H_
