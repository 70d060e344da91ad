#ifndef MILLRACE_AUGMENT_COLOR_COLOR_H_
#define MILLRACE_AUGMENT_COLOR_COLOR_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "augment/color_ops.h"
#include "augment/image/color_image.h"
#include "base/philox.h"
#include "base/run.h"

// The arithmetic of color_ops.h.

namespace millrace::augment {

// Draws the factor of MakeColor's op for an image, 0 for an op that takes none; nullopt if the
// image stays as it is.
std::optional<float> DrawColor(const ColorOptions& options, RandomStream& random);

struct DrawnColor {
  ColorOp op = ColorOp::kBrightness;
  float factor = 0;
};
// Draws the steps of MakeColorJitter's op, in the order in which they are applied.
absl::InlinedVector<DrawnColor, 4> DrawColorJitter(const ColorJitterOptions& options,
                                                   RandomStream& random);

// The new value of each value of a channel.
using ColorTable = std::array<uint8_t, 256>;

ColorTable InvertTable();
ColorTable PosterizeTable(int bits);
ColorTable SolarizeTable(float threshold);
using Histogram = std::array<int64_t, 256>;
ColorTable EqualizeTable(const Histogram& histogram);
// For a channel whose values lie in [least, most].
ColorTable AutocontrastTable(uint8_t least, uint8_t most);

// Returns the mean of the greys. REQUIRES: the image has pixels.
float MeanGrey(const ColorImage& in);

// In these, `out` may be the image itself.
void ApplyTable(const ColorImage& in, const ColorTable& table, uint8_t* out);
void AdjustSaturation(const ColorImage& in, float factor, uint8_t* out);
void AdjustHue(const ColorImage& in, float factor, uint8_t* out);
void ToGrayscale(const ColorImage& in, uint8_t* out);
// These treat each channel by itself.
void Equalize(const ColorImage& in, uint8_t* out);
void Autocontrast(const ColorImage& in, uint8_t* out);

// In these, `out` is other memory.
void AdjustSharpness(const ColorImage& in, float factor, uint8_t* out);
// REQUIRES: both extents > kernel_size / 2.
void GaussianBlur(const ColorImage& in, int64_t kernel_size, float sigma, uint8_t* out,
                  RunArena& arena);

// Applies any op but kGaussianBlur; `out` is other memory.
void ApplyColor(ColorOp op, const ColorImage& in, float factor, uint8_t* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_COLOR_COLOR_H_
