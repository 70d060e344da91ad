#ifndef MILLRACE_AUGMENT_JPEG_COLOR_H_
#define MILLRACE_AUGMENT_JPEG_COLOR_H_

#include <cstdint>

#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

// Kernels may read and write up to this many samples beyond the last one asked for, unless stated
// otherwise.
inline constexpr int kRowPadding = 64;

// libjpeg's smooth ("fancy") upsampling: a sample is 3/4 of the nearest and 1/4 of the next, in
// each direction that is upsampled, rounded alternately down and up.

// Makes 2 * width samples of `width`; reads in[-1] and in[width].
void UpsampleAcross(const uint8_t* in, int width, uint8_t* out, Level level);
// Makes a row between two: `near` has weight 3. `upper`: the upper one of the two rows of `near`.
void UpsampleDown(const uint8_t* near, const uint8_t* far, int width, bool upper, uint8_t* out,
                  Level level);
// Does both; reads [-1] and [width] of both rows.
void UpsampleBoth(const uint8_t* near, const uint8_t* far, int width, uint8_t* out, Level level);

// Write exactly `width` RGB pixels.
void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* rgb,
              Level level);
void GreyToRgb(const uint8_t* y, int width, uint8_t* rgb);

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_COLOR_H_
