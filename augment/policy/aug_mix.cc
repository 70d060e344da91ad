#include "augment/aug_mix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "augment/batch_mixing.h"
#include "augment/image/errors.h"
#include "augment/image/map_images.h"
#include "augment/image/options.h"
#include "augment/policy/aug_mix.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr int kMost = 16;  // chains, and transforms of each

void AddWeighted(const uint8_t* image, float weight, int64_t size, float* sum) {
  for (int64_t i = 0; i < size; ++i) sum[i] += weight * static_cast<float>(image[i]);
}

class AugMix final : public Op {
 public:
  AugMix(AugMixOptions options, uint64_t stage) : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveColorImage(input, options_.field, "aug_mix");
  }

  void Apply(Run& run) const override {
    // One for all rows: images are mixed one after the other.
    const MixScratch scratch(run.arena(), LargestOf(run.Get(options_.field), run));
    MapImages(run, options_.field, stage_,
              [&](RandomStream& random, const ColorImage& in, uint8_t* out, RunArena&) {
                ApplyMix(DrawMix(options_, in.height, in.width, random), in, options_.bilinear,
                         static_cast<uint8_t>(options_.fill), scratch, out);
                return absl::OkStatus();
              });
  }

 private:
  static int64_t LargestOf(const Column& images, const Run& run) {
    int64_t largest = 0;
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (run.ok(row)) largest = std::max(largest, images.at(row).shape.num_elements());
    }
    return largest;
  }

  const AugMixOptions options_;
  const uint64_t stage_;
};

}  // namespace

double DrawLogGamma(double alpha, RandomStream& random) {
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  double log_gamma = 0;
  for (;;) {
    const double radius = std::sqrt(-2 * std::log1p(-random.NextDouble()));
    const double x = radius * std::cos(2 * std::numbers::pi * random.NextDouble());
    const double r = random.NextDouble();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log1p(-r) >= x * x / 2 + d - d * v + d * std::log(v)) continue;
    log_gamma = std::log(d * v);
    break;
  }
  return alpha < 1 ? log_gamma + std::log1p(-random.NextDouble()) / alpha : log_gamma;
}

DrawnMix DrawMix(const AugMixOptions& options, int64_t height, int64_t width,
                 RandomStream& random) {
  DrawnMix drawn;
  const double own = DrawSymmetricBeta(options.alpha, random);
  drawn.own_weight = static_cast<float>(own);
  std::vector<double> weights;
  for (int i = 0; i < options.mixture_width; ++i) {
    weights.push_back(DrawLogGamma(options.alpha, random));
  }
  // Relative to the largest, which is not so small that it becomes 0.
  const double largest = *std::ranges::max_element(weights);
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (const double weight : weights) {
    drawn.chains.push_back(
        {static_cast<float>(weight / sum * (1 - own)), DrawChain(options, height, width, random)});
  }
  return drawn;
}

MixScratch::MixScratch(RunArena& arena, int64_t size)
    : sum_(reinterpret_cast<float*>(arena.Allocate(static_cast<size_t>(size) * sizeof(float)))),
      one_(reinterpret_cast<uint8_t*>(arena.Allocate(static_cast<size_t>(size)))),
      other_(reinterpret_cast<uint8_t*>(arena.Allocate(static_cast<size_t>(size)))) {}

void ApplyMix(const DrawnMix& drawn, const ColorImage& in, bool bilinear, uint8_t fill,
              const MixScratch& scratch, uint8_t* out) {
  const int64_t size = in.size();
  float* const sum = scratch.sum();
  std::fill_n(sum, size, 0.0f);
  AddWeighted(in.data, drawn.own_weight, size, sum);
  for (const DrawnMix::Chain& chain : drawn.chains) {
    ColorImage image = in;
    for (const DrawnTransform& transform : chain.transforms) {
      uint8_t* const to = image.data == scratch.one() ? scratch.other() : scratch.one();
      ApplyTransform(transform, image, bilinear, fill, to);
      image.data = to;
    }
    AddWeighted(image.data, chain.weight, size, sum);
  }
  // The weights' sum may be above 1 by a rounding.
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(std::min(sum[i], 255.0f));
}

absl::StatusOr<std::unique_ptr<Op>> MakeAugMix(AugMixOptions options, const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber("aug_mix", "severity", options.severity, 1, 10));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("aug_mix", "mixture_width", options.mixture_width, 1, kMost));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("aug_mix", "chain_depth", options.chain_depth, 0, kMost));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("aug_mix", "alpha", options.alpha, 0.001, 1000));
  MILLRACE_RETURN_IF_ERROR(CheckNumber("aug_mix", "fill", options.fill, 0, 255));
  return std::make_unique<AugMix>(std::move(options), HashName(stage));
}

}  // namespace millrace::augment
