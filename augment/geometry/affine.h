#ifndef MILLRACE_AUGMENT_GEOMETRY_AFFINE_H_
#define MILLRACE_AUGMENT_GEOMETRY_AFFINE_H_

#include <array>
#include <cstdint>
#include <optional>

#include "augment/color/color.h"
#include "augment/distort_ops.h"
#include "base/philox.h"

namespace millrace::augment {

// Maps the output's point (x, y) to a point of the input: (m[0] x + m[1] y + m[2], m[3] x + m[4] y
// + m[5]). Pixel (i, j) has its centre at (j + 0.5, i + 0.5).
using AffineMatrix = std::array<double, 6>;

struct AffineParameters {
  double degrees = 0;
  double translate_x = 0;  // pixels
  double translate_y = 0;
  double scale = 1;
  double shear_x = 0;  // degrees
  double shear_y = 0;
};
// Draws the parameters of MakeAffine's op for a height x width image; nullopt if the image stays as
// it is.
std::optional<AffineParameters> DrawAffine(const AffineOptions& options, int64_t height,
                                           int64_t width, RandomStream& random);
// Computes torchvision's _get_inverse_affine_matrix around the middle of the image.
AffineMatrix InverseAffine(const AffineParameters& parameters, int64_t height, int64_t width);

// Write the warped image to `out`, other memory of the same shape. REQUIRES: entries of the matrix
// are below 2^40.
void WarpNearest(const ColorImage& in, const AffineMatrix& matrix, uint8_t fill, uint8_t* out);
void WarpBilinear(const ColorImage& in, const AffineMatrix& matrix, uint8_t fill, uint8_t* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_GEOMETRY_AFFINE_H_
