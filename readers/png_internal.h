#ifndef MILLRACE_READERS_PNG_INTERNAL_H_
#define MILLRACE_READERS_PNG_INTERNAL_H_

#include <spng.h>

#include <cstdint>
#include <memory>

namespace millrace::readers::internal {

struct SpngFree {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using SpngContext = std::unique_ptr<spng_ctx, SpngFree>;

// Channels of an image of that PNG colour type; a palette holds colours: 3.
inline int ChannelsOfPng(uint8_t color_type) {
  switch (color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
      return 1;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return 4;
    default:
      return 3;
  }
}

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_PNG_INTERNAL_H_
