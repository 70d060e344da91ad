#ifndef MILLRACE_AUGMENT_IMAGE_COLOR_IMAGE_H_
#define MILLRACE_AUGMENT_IMAGE_COLOR_IMAGE_H_

#include <cstdint>

namespace millrace::augment {

// A dense uint8 image of 1 or 3 channels. Borrows.
struct ColorImage {
  const uint8_t* data = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;

  int64_t pixels() const { return height * width; }
  int64_t size() const { return pixels() * channels; }
};

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_IMAGE_COLOR_IMAGE_H_
