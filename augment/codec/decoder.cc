#include "augment/codec/decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/image/errors.h"
#include "base/status.h"
#include "readers/exif.h"
#include "readers/foreign_kind.h"

namespace millrace::augment {
namespace {

absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(std::string_view encoded,
                                                   const DecodeImageOptions& options) {
  const std::string_view format = readers::GuessImageFormat(encoded);
  if (format == "jpeg") return OpenJpeg(encoded, options);
  if (format == "png") return OpenPng(encoded, options);
  return RowError(RecordErrorReason::kImage,
                  absl::StrCat("neither JPEG nor PNG", readers::ButForeign(encoded), " (",
                               encoded.size(), " bytes)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view encoded,
                                                        const DecodeImageOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ImageDecoder> decoder, Open(encoded, options));
  const readers::ImageHeader& info = decoder->info();
  // Both formats keep extents below 2^31, so the product fits.
  if (info.height * info.width > options.max_pixels) {
    return RowError(RecordErrorReason::kImage,
                    absl::StrCat("image of ", info.height, " x ", info.width,
                                 " pixels exceeds max_pixels ", options.max_pixels));
  }
  MILLRACE_RETURN_IF_ERROR(decoder->CheckHeader());
  const int orientation = options.apply_exif_orientation ? readers::ReadOrientation(encoded) : 1;
  if (orientation == 1) return decoder;
  return MakeUpright(std::move(decoder), orientation);
}

}  // namespace millrace::augment
