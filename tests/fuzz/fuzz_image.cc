#include <cstring>
#include <vector>

#include "augment/codec/decoder.h"
#include "readers/exif.h"
#include "tests/fuzz/fuzz_input.h"

// PNGs, and JPEGs under the options of decode_image that fuzz_jpeg does not know: a file is decoded
// or an error of a row, a region's pixels are the whole image's, in small too, and none is what the
// memory held before. Five bytes before the file choose options and region.

namespace millrace::augment {
namespace {

DecodeImageOptions Choose(uint8_t choice) {
  DecodeImageOptions options;
  options.channels = (choice & 1) != 0 ? 3 : 1;
  options.max_pixels = 1 << 14;
  options.max_scans = 20;
  options.max_memory_bytes = 4 << 20;
  options.apply_exif_orientation = (choice & 2) != 0;
  options.allow_truncated = (choice & 4) != 0;
  options.verify_full = (choice & 8) != 0 && !options.allow_truncated;
  options.fast_dct = (choice & 16) != 0;
  options.fancy_upsampling = (choice & 32) == 0;
  return options;
}

void Choose(uint8_t begin, uint8_t size, int64_t extent, int64_t* from, int64_t* length) {
  *from = extent * begin / 256;
  *length = 1 + (extent - *from - 1) * size / 255;
}

void RequireRowError(const absl::Status& status) {
  fuzz::Require(status.code() == absl::StatusCode::kDataLoss ||
                    status.code() == absl::StatusCode::kInvalidArgument ||
                    status.code() == absl::StatusCode::kResourceExhausted,
                "an image is decoded or an error");
}

// All pixels, over memory full of `fill`; empty: an error.
std::vector<uint8_t> DecodeAll(std::string_view bytes, const DecodeImageOptions& options,
                               uint8_t fill) {
  auto decoder = OpenImage(bytes, options);
  fuzz::Require(decoder.ok(), "a header is read as before");
  const readers::ImageHeader& info = (*decoder)->info();
  std::vector<uint8_t> pixels(static_cast<size_t>(info.height * info.width * options.channels),
                              fill);
  RunArena arena;
  const absl::Status status = (*decoder)->DecodeAll(options.channels, arena, pixels.data());
  if (status.ok()) return pixels;
  RequireRowError(status);
  return {};
}

void CheckRegion(ImageDecoder& decoder, const DecodeImageOptions& options, const Region& region,
                 const std::vector<uint8_t>& whole) {
  RunArena arena;
  const auto pixels = decoder.DecodeRegion(region, options.channels, arena);
  if (!pixels.ok()) RequireRowError(pixels.status());
  if (whole.empty()) return;
  fuzz::Require(pixels.ok(), "what is decoded as a whole is decoded in part");
  const int64_t width = decoder.info().width;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row = whole.data() + ((region.top + y) * width + region.left) * options.channels;
    fuzz::Require(std::memcmp(row, pixels->data + y * pixels->stride,
                              static_cast<size_t>(region.width * options.channels)) == 0,
                  "a region has the whole image's pixels");
  }
}

// The same of the image at 1/`denominator` of its size.
void CheckScaled(std::string_view bytes, const DecodeImageOptions& options, const Region& region,
                 int denominator) {
  const auto whole_decoder = OpenImage(bytes, options), decoder = OpenImage(bytes, options);
  fuzz::Require(whole_decoder.ok() && decoder.ok(), "a header is read as before");
  const readers::ImageHeader& info = (*decoder)->info();
  RunArena arena_of_whole, arena;
  Region all, part;
  const auto whole = (*whole_decoder)
                         ->DecodeScaled({0, 0, info.height, info.width}, denominator,
                                        options.channels, arena_of_whole, &all);
  const auto pixels = (*decoder)->DecodeScaled(region, denominator, options.channels, arena, &part);
  if (!pixels.ok()) RequireRowError(pixels.status());
  if (!whole.ok()) return RequireRowError(whole.status());
  fuzz::Require(pixels.ok(), "what is decoded small is decoded small in part");
  for (int64_t y = 0; y < part.height; ++y) {
    const uint8_t* row =
        whole->data + (part.top + y) * whole->stride + part.left * options.channels;
    fuzz::Require(std::memcmp(row, pixels->data + y * pixels->stride,
                              static_cast<size_t>(part.width * options.channels)) == 0,
                  "a region of the small image has its pixels");
  }
}

void Run(const uint8_t* data, size_t size) {
  const uint8_t choice = fuzz::TakeByte(data, size);
  const DecodeImageOptions options = Choose(choice);
  uint8_t corners[4];
  for (uint8_t& corner : corners) corner = fuzz::TakeByte(data, size);
  const fuzz::InputFile file(data, size);
  const int orientation = readers::ReadOrientation(file.text());
  fuzz::Require(orientation >= 1 && orientation <= 8, "an orientation is one of eight");
  const auto header = readers::ReadImageHeader(file.text());
  if (!header.ok()) RequireRowError(header.status());
  auto decoder = OpenImage(file.text(), options);
  if (!decoder.ok()) return RequireRowError(decoder.status());
  const int64_t height = (*decoder)->info().height, width = (*decoder)->info().width;
  fuzz::Require(header.ok() && header->height * header->width == height * width,
                "the header has the size that is decoded");
  const std::vector<uint8_t> whole = DecodeAll(file.text(), options, 0);
  fuzz::Require(DecodeAll(file.text(), options, 0xFF) == whole, "every pixel is written");
  Region region;
  Choose(corners[0], corners[2], height, &region.top, &region.height);
  Choose(corners[1], corners[3], width, &region.left, &region.width);
  CheckRegion(**decoder, options, region, whole);
  // An image that is turned does not tell where its region lies in the small one.
  const int denominator = 1 << (choice >> 6);
  if (denominator > 1 && !options.apply_exif_orientation) {
    CheckScaled(file.text(), options, region, denominator);
  }
}

}  // namespace
}  // namespace millrace::augment

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::augment::Run(data, size);
  return 0;
}
