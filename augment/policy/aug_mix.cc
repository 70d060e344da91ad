#include "augment/aug_mix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/image/errors.h"
#include "augment/mixing.h"
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
    return ResolvePolicy(input, options_.field, "aug_mix");
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, DType::kU8);
    // One for all rows: images are mixed one after the other.
    const MixScratch scratch(run.arena(), LargestOf(in, run));
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      const Shape& shape = image.shape;
      const ColorImage view{static_cast<const uint8_t*>(image.data), shape[0], shape[1], shape[2]};
      RandomStream random = run.Random(row, stage_);
      const DrawnMix drawn = DrawMix(options_, shape[0], shape[1], random);
      auto* to = static_cast<uint8_t*>(run.Allocate(out, row, shape));
      if (view.size() == 0) continue;
      ApplyMix(drawn, view, options_.bilinear, static_cast<uint8_t>(options_.fill), scratch, to);
    }
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

absl::Status CheckRange(std::string_view name, int value, int least, int most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("aug_mix: ", ToAbsl(name), " is ", value, "; expected ", least, " to ", most));
}

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
  std::vector<double> shares;
  for (int i = 0; i < options.mixture_width; ++i) {
    shares.push_back(DrawLogGamma(options.alpha, random));
  }
  // Relative to the largest, which is not so small that it becomes 0.
  const double largest = *std::ranges::max_element(shares);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - largest);
  for (const double share : shares) {
    drawn.chains.push_back(
        {static_cast<float>(share / sum * (1 - own)), DrawChain(options, height, width, random)});
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
  MILLRACE_RETURN_IF_ERROR(CheckRange("severity", options.severity, 1, 10));
  MILLRACE_RETURN_IF_ERROR(CheckRange("mixture_width", options.mixture_width, 1, kMost));
  MILLRACE_RETURN_IF_ERROR(CheckRange("chain_depth", options.chain_depth, 0, kMost));
  if (!(options.alpha >= 0.001 && options.alpha <= 1000)) {
    return absl::InvalidArgumentError(
        absl::StrCat("aug_mix: alpha is ", options.alpha, "; expected 0.001 to 1000"));
  }
  if (!(options.fill >= 0 && options.fill <= 255)) {
    return absl::InvalidArgumentError(
        absl::StrCat("aug_mix: fill is ", options.fill, "; expected 0 to 255"));
  }
  return std::make_unique<AugMix>(std::move(options), HashName(stage));
}

}  // namespace millrace::augment
