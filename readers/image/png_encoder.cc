#include "readers/png_encoder.h"

#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "readers/exif.h"
#include "readers/image/png.h"

namespace millrace::readers {

absl::StatusOr<std::string> EncodePng(std::span<const uint8_t> pixels, uint32_t height,
                                      uint32_t width, int channels, const PngOptions& options) {
  const internal::SpngContext context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (context == nullptr) return absl::ResourceExhaustedError("spng: no memory");
  spng_ihdr ihdr{};
  ihdr.height = height;
  ihdr.width = width;
  ihdr.bit_depth = 8;
  ihdr.color_type = channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  int error = spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  if (error == 0 && options.stored) {
    error = spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, 0);
  }
  if (error == 0 && options.stored) {
    error = spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_DISABLE_FILTERING);
  }
  if (error == 0) error = spng_set_ihdr(context.get(), &ihdr);
  std::string exif_data = MakeExif(options.orientation);
  spng_exif exif{.length = exif_data.size(), .data = exif_data.data()};
  if (error == 0 && options.orientation != 1) error = spng_set_exif(context.get(), &exif);
  if (error == 0) {
    error = spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG,
                              SPNG_ENCODE_FINALIZE);
  }
  size_t size = 0;
  std::unique_ptr<void, decltype(&std::free)> png(nullptr, &std::free);
  if (error == 0) png.reset(spng_get_png_buffer(context.get(), &size, &error));
  if (error != 0) {
    return absl::InternalError(absl::StrCat("PNG encoding failed: ", spng_strerror(error)));
  }
  return std::string(static_cast<const char*>(png.get()), size);
}

}  // namespace millrace::readers
