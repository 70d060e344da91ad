#ifndef MILLRACE_READERS_IMAGE_HEADER_INTERNAL_H_
#define MILLRACE_READERS_IMAGE_HEADER_INTERNAL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace::readers::internal {

// "png", "jpeg", "gif", "bmp" or "webp" by the first bytes; empty for anything else.
std::string_view GuessImageFormat(std::string_view bytes);

// What the header of an encoded image says; its pixels are not looked at.
struct ImageHeader {
  std::string_view format;  // "png" or "jpeg"
  int64_t height = 0;
  int64_t width = 0;
  int channels = 0;
};

//   INVALID_ARGUMENT  neither PNG nor JPEG
//   DATA_LOSS         the header is damaged or cut
absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view bytes);

// Encodes `height` rows of `width` grey bytes as PNG; the same pixels give the same bytes.
absl::StatusOr<std::string> EncodeGreyPng(std::span<const uint8_t> pixels, uint32_t height,
                                          uint32_t width);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_HEADER_INTERNAL_H_
