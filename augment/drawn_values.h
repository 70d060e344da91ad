#ifndef MILLRACE_AUGMENT_DRAWN_VALUES_H_
#define MILLRACE_AUGMENT_DRAWN_VALUES_H_

#include <cstdint>
#include <string>

#include "augment/auto_augment.h"
#include "augment/color_ops.h"
#include "augment/distort_ops.h"
#include "base/philox.h"

// What random ops drew for an image, drawn again from a sample's random words, for those who look
// at samples: "factor 1.2", "brightness 0.9, hue -0.02" in the order in which they were applied; ""
// where the image stayed as it is or nothing was to be drawn.

namespace millrace::augment {

std::string DrawnText(const ColorOptions& options, RandomStream random);
std::string DrawnText(const ColorJitterOptions& options, RandomStream random);
// Distances in pixels are those of a height x width image; 0 x 0: not known, they are left out.
std::string DrawnText(const AffineOptions& options, int64_t height, int64_t width,
                      RandomStream random);
std::string DrawnText(const AutoAugmentOptions& options, int64_t height, int64_t width,
                      RandomStream random);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_DRAWN_VALUES_H_
