#include "absl/strings/str_cat.h"
#include "augment/errors_internal.h"
#include "augment/image_decoder_internal.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(std::string_view encoded) {
  const std::string_view format = readers::GuessImageFormat(encoded);
  if (format == "jpeg") return OpenJpeg(encoded);
  if (format == "png") return OpenPng(encoded);
  return RowError(RecordErrorReason::kImage,
                  absl::StrCat("neither JPEG nor PNG", format.empty() ? "" : ", but ",
                               ToAbsl(format), " (", encoded.size(), " bytes)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view encoded,
                                                        int64_t max_pixels) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, Open(encoded));
  const readers::ImageHeader& info = decoder->info();
  // Both formats keep extents below 2^31, so the product fits.
  if (info.height * info.width > max_pixels) {
    return RowError(RecordErrorReason::kImage,
                    absl::StrCat("image of ", info.height, " x ", info.width,
                                 " pixels exceeds max_pixels ", max_pixels));
  }
  MILLRACE_RETURN_IF_ERROR(decoder->CheckHeader());
  return decoder;
}

}  // namespace millrace::augment
