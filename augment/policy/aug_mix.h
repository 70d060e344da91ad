#ifndef MILLRACE_AUGMENT_POLICY_AUG_MIX_H_
#define MILLRACE_AUGMENT_POLICY_AUG_MIX_H_

#include <cstdint>
#include <vector>

#include "augment/aug_mix.h"
#include "augment/policy/auto_augment.h"

// The draws of MakeAugMix's op, and their application to an image.

namespace millrace::augment {

// Draws the logarithm of a Gamma(alpha, 1) variate by Marsaglia and Tsang (ACM TOMS 26, 2000),
// exact. With d = max(alpha, alpha + 1 if alpha < 1) - 1/3, c = 1 / sqrt(9 d). Per try three
// NextDoubles p, q, r: x = sqrt(-2 log(1 - p)) cos(2 pi q), v = (1 + c x)^3, and it is d v if v > 0
// and log(1 - r) < x^2 / 2 + d - d v + d log(v). For alpha < 1 one NextDouble s more: times (1 -
// s)^(1 / alpha).
double DrawLogGamma(double alpha, RandomStream& random);

struct DrawnMix {
  struct Chain {
    float weight = 0;
    DrawnTransforms transforms;
  };
  float own_weight = 1;  // weight of the image itself
  std::vector<Chain> chains;
};

DrawnMix DrawMix(const AugMixOptions& options, int64_t height, int64_t width, RandomStream& random);

// Scratch memory for one image's sum and for two images, of up to `size` values each.
class MixScratch {
 public:
  MixScratch(RunArena& arena, int64_t size);

  float* sum() const { return sum_; }
  uint8_t* one() const { return one_; }
  uint8_t* other() const { return other_; }

 private:
  float* const sum_;
  uint8_t* const one_;
  uint8_t* const other_;
};

// Writes the mixed image to `out`, other memory.
void ApplyMix(const DrawnMix& drawn, const ColorImage& in, bool bilinear, uint8_t fill,
              const MixScratch& scratch, uint8_t* out);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_POLICY_AUG_MIX_H_
