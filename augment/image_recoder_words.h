#ifndef MILLRACE_AUGMENT_IMAGE_RECODER_WORDS_H_
#define MILLRACE_AUGMENT_IMAGE_RECODER_WORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "readers/image_codec.h"

namespace millrace::augment {

// ImageRecoderOptions as flags and other languages give them: words, and what was not given.
struct ImageRecoderWords {
  std::optional<int64_t> max_resolution;
  std::optional<int64_t> min_resolution;
  std::optional<uint64_t> jpeg_quality;  // if images are encoded as JPEG anew
  bool upright = false;
  std::string image_encoding;  // "jpeg" or "raw"; empty: as images are, or as `write_mode` says
  std::string write_mode;      // "raw", "jpg", "smart" or "proportion", as FFCV has them
  std::optional<uint64_t> smart_threshold;     // of "smart", which needs it
  std::optional<double> compress_probability;  // of "proportion"
  std::optional<uint64_t> write_seed;          // of "proportion"
};

//   INVALID_ARGUMENT  names the first option that is bad, or that does not apply
absl::StatusOr<std::shared_ptr<const readers::ImageCodec>> MakeImageRecoder(
    const ImageRecoderWords& words);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_RECODER_WORDS_H_
