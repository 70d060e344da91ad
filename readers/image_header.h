#ifndef MILLRACE_READERS_IMAGE_HEADER_H_
#define MILLRACE_READERS_IMAGE_HEADER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

struct jpeg_decompress_struct;  // libjpeg's

namespace millrace::readers {

// Returns "png", "jpeg", "gif", "bmp", "webp", "tiff", "avif", "heic", "heif", "jp2" or "jxl" by
// the first bytes; empty for anything else.
std::string_view GuessImageFormat(std::string_view bytes);

// The facts in the header of an encoded image. A value type.
struct ImageHeader {
  std::string_view format;  // "png" or "jpeg"
  int64_t height = 0;
  int64_t width = 0;
  // As stored: 1 grey, 2 grey and alpha, 3 colour (a PNG palette too), 4 colour and alpha or CMYK.
  int channels = 0;
  // Orientation in its Exif data (readers/exif.h), 1 to 8; height and width are those before
  // turning.
  int orientation = 1;
};

// Channels of a PNG of this colour type (ISO/IEC 15948, table 11.1), as ImageHeader counts them.
int PngChannels(uint8_t color_type);

// True if libjpeg's last error is a kind of file or a size that it does not support, which is no
// damage. Reading a header and decoding must give the same verdict, so both ask here.
bool IsUnsupportedJpeg(const jpeg_decompress_struct& info);

// True if libjpeg's last warning is of something odd in the header that changes no pixel: a JFIF
// version or an Adobe transform that it does not know, parameters of a baseline scan that do not
// count, bytes between the segments in front of the first scan. Others tell of damage, where
// libjpeg makes pixels up.
bool IsHarmlessJpegWarning(const jpeg_decompress_struct& info);

// Reads the header of an encoded image; no pixel is decoded and nothing of its size is allocated.
// Thread-safe.
//   INVALID_ARGUMENT  neither PNG nor JPEG, or a JPEG of a kind or size that libjpeg does not take
//   DATA_LOSS         the header is damaged or cut, or libjpeg warned of it before it refused it
absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view bytes);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_IMAGE_HEADER_H_
