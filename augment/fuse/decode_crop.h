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
#include "augment/jpeg/lane_pool.h"

// What decode_image alone and decode_image with a crop have in common, and the latter.

namespace millrace::augment {

// Images of a run: decoded a few in turns, of which the last ones of a run are left alone. More
// than these cost memory and gain little.
inline constexpr int64_t kPreferredDecodeRows = 16;

// The schema with the encoded field replaced by an image of unknown extents.
absl::StatusOr<Schema> ResolveDecode(const Schema& input, const DecodeImageOptions& options);

// Opens `encoded` in a decoder that may go to a LanePool. False: it is to be decoded by
// OpenForDecoding.
bool OpenForLanes(std::string_view encoded, const DecodeImageOptions& options,
                  jpeg::RegionDecoder& decoder);

// Opens `encoded` for one decoding: by libjpeg-turbo at once where a LanePool has `refused` it, or
// the same damage would be met twice before its turn.
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenForDecoding(std::string_view encoded,
                                                              const DecodeImageOptions& options,
                                                              bool refused);

inline constexpr char kNeedsResize[] =
    "decode_image: dct_downscale needs a random_resized_crop or a resize of its output directly "
    "behind "
    "it";

// Options of the decode, and that the crop is of what is decoded.
absl::Status ValidatePair(const DecodeImageOptions& decode, const CropOptions& crop);
FirstOptions ToFirst(CropOptions crop);

// decode_image, a crop and what follows them in one: only the crop's window is decoded.
class DecodeCrop final : public Op {
 public:
  // REQUIRES: CanBeResized, where `resize` is there.
  static absl::StatusOr<std::unique_ptr<DecodeCrop>> Make(DecodeImageOptions decode,
                                                          CropOptions crop,
                                                          std::optional<ResizeOptions> resize,
                                                          const std::string& stage, PixelTail tail);

  absl::StatusOr<Schema> Resolve(const Schema& input) override;
  // The schema behind the decode, in front of the crop.
  absl::StatusOr<Schema> ResolveImage(const Schema& input) const;
  void Apply(Run& run) const override { ApplyNoting(run, nullptr); }
  int64_t preferred_rows() const override { return kPreferredDecodeRows; }

  // Notes the shape of each row's whole image in `images`, if that is there; of a row that fails it
  // may be missing.
  void ApplyNoting(Run& run, std::vector<Shape>* images) const;

 private:
  class Worker;

  DecodeCrop(DecodeImageOptions decode, PixelHead head, PixelTail tail);

  const DecodeImageOptions decode_;
  PixelHead head_;  // constant after Resolve, as what follows
  PixelTail tail_;
  std::optional<Shape> shape_;  // of every output, if it is the same
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FUSE_DECODE_CROP_H_
