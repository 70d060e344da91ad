#ifndef MILLRACE_AUGMENT_DRAWN_VALUES_H_
#define MILLRACE_AUGMENT_DRAWN_VALUES_H_

#include <cstdint>
#include <string>

#include "augment/auto_augment.h"
#include "augment/color_ops.h"
#include "augment/distort_ops.h"
#include "base/philox.h"

// The values that random ops drew for an image, drawn again from a sample's random words, for tools
// that show samples: "factor 1.2", "brightness 0.9, hue -0.02" in the order in which they were
// applied; "" if the image stayed as it was or there was nothing to draw.

namespace millrace::augment {

std::string DrawnText(const ColorOptions& options, RandomStream random);
std::string DrawnText(const ColorJitterOptions& options, RandomStream random);
// Distances are in pixels of a height x width image; 0 x 0 is an unknown size, and distances are
// then left out.
std::string DrawnText(const AffineOptions& options, int64_t height, int64_t width,
                      RandomStream random);
std::string DrawnText(const AutoAugmentOptions& options, int64_t height, int64_t width,
                      RandomStream random);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_DRAWN_VALUES_H_
