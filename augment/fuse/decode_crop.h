#ifndef MILLRACE_AUGMENT_FUSE_DECODE_CROP_H_
#define MILLRACE_AUGMENT_FUSE_DECODE_CROP_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "augment/codec/decoder.h"
#include "augment/decode_crop.h"
#include "augment/fuse/pixel_head.h"
#include "augment/fuse/pixel_tail.h"
#include "augment/jpeg/track_pool.h"

// The parts that decode_image alone and decode_image with a crop have in common, and the latter.

namespace millrace::augment {

// Images per run. A few images are decoded in turns, except for the last ones of a run. More images
// cost memory and gain little.
inline constexpr int64_t kPreferredDecodeRows = 16;

// Returns the schema with the encoded field replaced by an image of unknown extents.
absl::StatusOr<Schema> ResolveDecode(const Schema& input, const DecodeImageOptions& options);

// Opens `encoded` in a decoder that may go to a TrackPool. False if OpenForDecoding must be used
// instead.
bool OpenForTracks(std::string_view encoded, const DecodeImageOptions& options,
                   jpeg::RegionDecoder& decoder);

// Opens `encoded` for one decoding. If a TrackPool has `refused` it, libjpeg-turbo decodes it at
// once; our decoder would only meet the same damage again.
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenForDecoding(std::string_view encoded,
                                                              const DecodeImageOptions& options,
                                                              bool refused);

inline constexpr char kNeedsResize[] =
    "decode_image: dct_downscale needs a random_resized_crop or a resize of its output directly "
    "behind "
    "it";

// Checks the options of the decode, and that the crop's field is the decode's output.
absl::Status ValidatePair(const DecodeImageOptions& decode, const CropOptions& crop);
FirstOptions ToFirst(CropOptions crop);

// decode_image, a crop and the steps behind them as one op, which decodes only the crop's window.
class DecodeCrop final : public Op {
 public:
  // REQUIRES: CanBeResized, if there is a `resize`.
  static absl::StatusOr<std::unique_ptr<DecodeCrop>> Make(DecodeImageOptions decode,
                                                          CropOptions crop,
                                                          std::optional<ResizeOptions> resize,
                                                          const std::string& stage, PixelTail tail);

  absl::StatusOr<Schema> Resolve(const Schema& input) override;
  // Returns the schema between the decode and the crop.
  absl::StatusOr<Schema> ResolveImage(const Schema& input) const;
  void Apply(Run& run) const override { ApplyNoting(run, nullptr); }
  int64_t preferred_rows() const override { return kPreferredDecodeRows; }

  // Applies the op and, unless `images` is null, notes the shape of each row's whole image there;
  // that of a failed row may be missing.
  void ApplyNoting(Run& run, std::vector<Shape>* images) const;

 private:
  class Worker;

  DecodeCrop(DecodeImageOptions decode, PixelHead head, PixelTail tail);

  const DecodeImageOptions decode_;
  PixelHead head_;  // constant after Resolve, as the members below
  PixelTail tail_;
  std::optional<Shape> shape_;  // shape of every output, if all have the same
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_DECODE_CROP_H_
