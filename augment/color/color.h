#ifndef MILLRACE_AUGMENT_COLOR_COLOR_H_
#define MILLRACE_AUGMENT_COLOR_COLOR_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "augment/color_ops.h"
#include "base/philox.h"
#include "base/run.h"

// The arithmetic of color_ops.h.

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

// What MakeColor's op draws for an image: its factor, 0 for an op that takes none; nullopt: the
// image stays as it is.
std::optional<float> DrawColor(const ColorOptions& options, RandomStream& random);

struct DrawnColor {
  ColorOp op = ColorOp::kBrightness;
  float factor = 0;
};
// What MakeColorJitter's draws, in the order in which it is applied.
absl::InlinedVector<DrawnColor, 4> DrawColorJitter(const ColorJitterOptions& options,
                                                   RandomStream& random);

// What every value of a channel becomes.
using ColorTable = std::array<uint8_t, 256>;

ColorTable InvertTable();
ColorTable PosterizeTable(int bits);
ColorTable SolarizeTable(float threshold);
using Histogram = std::array<int64_t, 256>;
ColorTable EqualizeTable(const Histogram& histogram);
// Of a channel with these values.
ColorTable AutocontrastTable(uint8_t least, uint8_t most);

// The mean of the greys. REQUIRES: the image has pixels.
float MeanGrey(const ColorImage& in);

// `out` may be the image itself.
void ApplyTable(const ColorImage& in, const ColorTable& table, uint8_t* out);
void AdjustSaturation(const ColorImage& in, float factor, uint8_t* out);
void AdjustHue(const ColorImage& in, float factor, uint8_t* out);
void ToGrayscale(const ColorImage& in, uint8_t* out);
// Of each channel by itself.
void Equalize(const ColorImage& in, uint8_t* out);
void Autocontrast(const ColorImage& in, uint8_t* out);

// `out` is other memory.
void AdjustSharpness(const ColorImage& in, float factor, uint8_t* out);
// REQUIRES: both extents > kernel_size / 2.
void GaussianBlur(const ColorImage& in, int64_t kernel_size, float sigma, uint8_t* out,
                  RunArena& arena);

// Any of them but kGaussianBlur; `out` is other memory.
void ApplyColor(ColorOp op, const ColorImage& in, float factor, uint8_t* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_COLOR_COLOR_H_
