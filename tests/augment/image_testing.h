#ifndef MILLRACE_TESTS_AUGMENT_IMAGE_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_IMAGE_TESTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "augment/decode_crop.h"
#include "augment/image_ops.h"
#include "base/op.h"

namespace millrace::augment::testing {

// Uint8 pixels, interleaved.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;

  friend bool operator==(const Image&, const Image&) = default;
};

// Smooth shapes with noise on top: no block of it is flat.
Image MakeImage(int64_t height, int64_t width, int channels, uint32_t seed);

struct JpegShape {
  int h_samp = 1;  // of the luma; chroma is 1x1
  int v_samp = 1;
  bool progressive = false;
  int restart_rows = 0;
  bool cmyk = false;  // pixels have 4 channels, written as Adobe's inverted inks
  int quality = 85;
  bool separate_scans = false;  // one scan per component
  int restart_mcus = 0;
  bool optimize = false;  // Huffman tables of its own
};
std::string EncodeJpeg(const Image& image, const JpegShape& shape = {});

// `pixels` in PNG's own layout: big-endian 16 bit, packed below 8 bit. color_type as in the format;
// a palette of 256 grey-blue-red entries {i, 255 - i, i / 2} is written for type 3.
std::string EncodePng(int64_t height, int64_t width, int color_type, int bit_depth,
                      const std::vector<uint8_t>& pixels, bool interlaced = false);

// What the program djpeg makes of a JPEG, with more `options` of its own ("-dct fast"); nullopt
// where it is not installed. It may warn of a `damaged` one.
std::optional<Image> Djpeg(const std::string& jpeg, int channels, const std::string& options = "",
                           bool damaged = false);

// `encoded` (JPEG or PNG) with Exif data of this orientation, in either byte order.
std::string WithExif(const std::string& encoded, int orientation, bool big_endian = true);
// A chunk of a PNG.
std::string PngChunk(const std::string& type, const std::string& data);
// The PNG with `chunk` behind its IHDR.
std::string WithChunk(const std::string& png, const std::string& chunk);
// The JPEG with a segment of this marker (0xE1 for APP1) in front of all others.
std::string WithSegment(const std::string& jpeg, uint8_t marker, const std::string& data);

// The part of the image.
Image Crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);

// A run of `rows` rows, its arena and the sample ids {0, first_record + row}.
class TestRun {
 public:
  explicit TestRun(int64_t rows, uint64_t seed = 1, uint64_t first_record = 0);

  Run& operator*() { return run_; }
  Run* operator->() { return &run_; }
  // Adds a column of encoded images; `values` must outlive the run.
  void AddBytes(const std::string& name, const std::vector<std::string>& values);
  // Adds a column with the same value in every row; `data` must outlive the run.
  void AddValue(const std::string& name, DType dtype, const Shape& shape, const void* data);
  Image ImageAt(const std::string& name, int64_t row) const;

 private:
  RunArena arena_;
  Run run_;
};

// Resolves `op` on `schema` (fails the test on an error) and applies it.
Schema ResolveAndApply(Op& op, const Schema& schema, Run& run);

// The schema of one encoded image.
Schema EncodedSchema();
inline Schema OneField(const std::string& name, DType dtype, const Shape& shape) {
  return Schema({{name, dtype, shape}});
}

struct DecodeResult {
  absl::Status status;
  Image image;  // when ok
};
// Expects an error of an image (kImage) whose text has `text` in it: all have that reason, so the
// text alone tells which check refused the image.
void ExpectError(const DecodeResult& result, absl::StatusCode code, const std::string& text);
// decode_image alone.
DecodeResult Decode(const std::string& encoded, const DecodeImageOptions& options);
// The same for a random_resized_crop of record `record` behind it (MakeDecodeImageToCrop), which
// follows.
DecodeResult DecodeToCropThenCrop(const std::string& encoded, const DecodeImageOptions& decode,
                                  const RandomResizedCropOptions& crop, uint64_t record);
DecodeResult DecodeToCropThenCrop(const std::string& encoded, const DecodeImageOptions& decode,
                                  const CenterCropOptions& crop, uint64_t record);
// The fused op, for record `record`.
DecodeResult DecodeCrop(const std::string& encoded, const DecodeImageOptions& decode,
                        const RandomResizedCropOptions& crop, uint64_t record);
// decode_image followed by random_resized_crop.
DecodeResult DecodeThenCrop(const std::string& encoded, const DecodeImageOptions& decode,
                            const RandomResizedCropOptions& crop, uint64_t record);

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_IMAGE_TESTING_H_
