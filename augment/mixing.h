#ifndef MILLRACE_AUGMENT_MIXING_H_
#define MILLRACE_AUGMENT_MIXING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/schema.h"
#include "base/shape.h"

// MixUp (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019): rows of a batch that take a
// part of each other, images and labels alike. A group of rows is what torchvision.transforms.v2
// calls a batch: row i of its v valid rows is mixed with row i - 1, row 0 with row v - 1 (torch's
// roll), by one draw for all of them.

namespace millrace::augment {

enum class MixingKind {
  kMixup,   // value * lambda + other * (1 - lambda)
  kCutmix,  // a box of the other's pixels
  kEither,  // one of the two, drawn for each group
};

struct MixingOptions {
  MixingKind kind = MixingKind::kMixup;
  std::string field = "image";
  std::string label = "label";      // float32 [classes]
  double mixup_alpha = 1;           // lambda ~ Beta(alpha, alpha); 0.001 to 1000
  double cutmix_alpha = 1;          // the same; the box has a share of 1 - lambda
  float probability = 1;            // otherwise the group stays as it is
  float switch_probability = 0.5f;  // of kEither: that it is CutMix
  uint64_t group = 2;               // rows; at least 2
  bool channels_first = false;      // images are [channels, height, width]; of CutMix
};

// "mixup", "cutmix", "mixup_or_cutmix".
std::string_view NameOf(MixingKind kind);

// Checks the fields of a batch (per sample).
//   NOT_FOUND         there is no such field
//   INVALID_ARGUMENT  images are not uint8, float16, bfloat16 or float32 of one known shape (of
//                     CutMix rank 3), labels not float32 [classes]
absl::Status CheckMixedFields(const MixingOptions& options, const Schema& schema);

// Lambda ~ Beta(alpha, alpha) by Bailey's polar method for Student's t (Math. Comp. 62, 1994): with
// u, v one NextDouble each, w = (1 - u)^(-1 / alpha) - 1 and c = cos(2 pi v),
// 1/2 + c / (2 sqrt(1 / w + c^2)) has exactly this distribution. In double.
double DrawSymmetricBeta(double alpha, RandomStream& random);

// What a group's rows take of each other.
struct Mixture {
  bool cuts = false;  // the box [top, bottom) x [left, right) instead of a blend
  float kept = 1;     // of the row's own label, and value
  float others = 0;   // 1 - kept
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// CutMix's box around pixel (x, y), as torchvision's CutMix.make_params: its half extents are
// sqrt(1 - lambda) / 2 of the image's, cut off to pixels, and so is the box at the edges; `kept` is
// the share that is left in the end.
Mixture BoxAround(int64_t x, int64_t y, double lambda, int64_t height, int64_t width);

// Draws for one group; nullopt: it stays as it is. `image` is the shape of one image.
// Draws: one NextFloat, and if it is below `probability`: of kEither one NextFloat, which is CutMix
// when it is below switch_probability; DrawSymmetricBeta, rounded to float32; of CutMix
// Below(width) and Below(height), the x and y of BoxAround.
std::optional<Mixture> DrawMixture(const MixingOptions& options, const Shape& image,
                                   RandomStream& random);

// Mixes the images at `rows`. Blends are other * others + own * kept in float32, then rounded to
// the dtype, half to even. `spare` has the bytes of one image.
void MixImages(const MixingOptions& options, const Mixture& mixture,
               std::span<std::byte* const> rows, DType dtype, const Shape& image, std::byte* spare);
// The same for labels, which are always blended.
void MixLabels(const Mixture& mixture, std::span<std::byte* const> rows, int64_t classes,
               std::byte* spare);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_MIXING_H_
