#include "absl/strings/str_cat.h"
#include "augment/errors_internal.h"
#include "augment/image_decoder_internal.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr std::string_view kJpegMagic = "\xFF\xD8\xFF";
constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1A\n";

absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(std::string_view encoded) {
  if (encoded.starts_with(kJpegMagic)) return OpenJpeg(encoded);
  if (encoded.starts_with(kPngMagic)) return OpenPng(encoded);
  return RowError(RecordErrorReason::kImage,
                  absl::StrCat("neither JPEG nor PNG (", encoded.size(), " bytes)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view encoded,
                                                        int64_t max_pixels) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, Open(encoded));
  const ImageInfo& info = decoder->info();
  // Both formats keep extents below 2^31, so the product fits.
  if (info.height * info.width > max_pixels) {
    return RowError(RecordErrorReason::kImage,
                    absl::StrCat("image of ", info.height, " x ", info.width,
                                 " pixels exceeds max_pixels ", max_pixels));
  }
  return decoder;
}

absl::StatusOr<ImageInfo> ProbeImage(std::string_view encoded) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, Open(encoded));
  return decoder->info();
}

}  // namespace millrace::augment
