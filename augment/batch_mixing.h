#ifndef MILLRACE_AUGMENT_BATCH_MIXING_H_
#define MILLRACE_AUGMENT_BATCH_MIXING_H_

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

// MixUp (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019): each row of a batch takes a
// part of another row, image and label alike. A group of rows is a batch of
// torchvision.transforms.v2: row i of its v valid rows is mixed with row i - 1, and row 0 with row
// v - 1 (torch's roll), by one draw for the whole group.

namespace millrace::augment {

enum class BatchMixingKind {
  kMixup,   // value * lambda + other * (1 - lambda)
  kCutmix,  // a box of the other's pixels
  kEither,  // one of the two, drawn per group
};

struct BatchMixingOptions {
  BatchMixingKind kind = BatchMixingKind::kMixup;
  std::string field = "image";
  std::string label = "label";      // float32 [classes]
  double mixup_alpha = 1;           // lambda ~ Beta(alpha, alpha); 0.001 to 1000
  double cutmix_alpha = 1;          // the same; 1 - lambda is the box's fraction of the image
  float probability = 1;            // probability that a group is changed
  float switch_probability = 0.5f;  // probability of CutMix, for kEither
  uint64_t group = 2;               // rows per group; at least 2
  bool channels_first = false;      // true if images are [channels, height, width]; for CutMix
};

// Returns "mixup", "cutmix" or "mixup_or_cutmix".
std::string_view NameOf(BatchMixingKind kind);

// Checks the fields of a batch; shapes are those of one sample.
//   NOT_FOUND         there is no such field
//   INVALID_ARGUMENT  images are not uint8, float16, bfloat16 or float32 of one known shape (of
//                     CutMix rank 3), labels not float32 [classes]
absl::Status CheckMixedFields(const BatchMixingOptions& options, const Schema& schema);

// Draws lambda ~ Beta(alpha, alpha) by Bailey's polar method for Student's t (Math. Comp. 62,
// 1994): with u, v one NextDouble each, w = (1 - u)^(-1 / alpha) - 1 and c = cos(2 pi v), 1/2 + c /
// (2 sqrt(1 / w + c^2)) has exactly this distribution. In double.
double DrawSymmetricBeta(double alpha, RandomStream& random);

// The parts that a group's rows take of each other.
struct Mixture {
  bool cuts = false;  // true if the box [top, bottom) x [left, right) is taken, false for a blend
  float kept = 1;     // fraction of the row's own label and values
  float others = 0;   // 1 - kept
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// Returns CutMix's box around pixel (x, y), as torchvision's CutMix.make_params: its half extents
// are sqrt(1 - lambda) / 2 of the image's, rounded down to pixels; the box is clipped to the image,
// and `kept` is the fraction of the image outside of it.
Mixture BoxAround(int64_t x, int64_t y, double lambda, int64_t height, int64_t width);

// Draws one group's mixture; nullopt if the group stays as it is. `image` is the shape of an image.
// Draws: one NextFloat; if it is below `probability`: for kEither one NextFloat, which chooses
// CutMix below switch_probability; DrawSymmetricBeta, rounded to float32; for CutMix Below(width)
// and Below(height), the x and y of BoxAround.
std::optional<Mixture> DrawMixture(const BatchMixingOptions& options, const Shape& image,
                                   RandomStream& random);

// Mixes the images at `rows` in place. A blend is other * others + own * kept in float32, rounded
// half to even to the dtype. `spare` is scratch memory of one image's size.
void MixImages(const BatchMixingOptions& options, const Mixture& mixture,
               std::span<std::byte* const> rows, DType dtype, const Shape& image, std::byte* spare);
// The same for labels, which are always blended; `spare` has the size of one label.
void MixLabels(const Mixture& mixture, std::span<std::byte* const> rows, int64_t classes,
               std::byte* spare);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_BATCH_MIXING_H_
