#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/color/color.h"
#include "augment/color_ops.h"
#include "augment/image/errors.h"
#include "augment/image/map_images.h"
#include "augment/image/options.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr float kMaxFactor = 100;
constexpr int64_t kMaxKernel = 127;

struct ColorFacts {
  std::string_view name;
  std::array<float, 2> limits;  // of the factor
};

ColorFacts FactsOf(ColorOp op) {
  switch (op) {
    case ColorOp::kBrightness:
      return {"brightness", {0, kMaxFactor}};
    case ColorOp::kContrast:
      return {"contrast", {0, kMaxFactor}};
    case ColorOp::kSaturation:
      return {"saturation", {0, kMaxFactor}};
    case ColorOp::kHue:
      return {"hue", {-0.5f, 0.5f}};
    case ColorOp::kSharpness:
      return {"sharpness", {0, kMaxFactor}};
    case ColorOp::kGrayscale:
      return {"grayscale", {0, 0}};
    case ColorOp::kInvert:
      return {"invert", {0, 0}};
    case ColorOp::kPosterize:
      return {"posterize", {0, 8}};
    case ColorOp::kSolarize:
      return {"solarize", {0, 256}};
    case ColorOp::kEqualize:
      return {"equalize", {0, 0}};
    case ColorOp::kAutocontrast:
      return {"autocontrast", {0, 0}};
    case ColorOp::kGaussianBlur:
      break;
  }
  return {"gaussian_blur", {0.01f, kMaxFactor}};
}

float DrawFactor(const std::array<float, 2>& range, RandomStream& random) {
  const double low = range[0];
  return static_cast<float>(low + (double{range[1]} - low) * random.NextDouble());
}

class Color final : public Op {
 public:
  Color(ColorOptions options, uint64_t stage) : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveColorImage(input, options_.field, NameOf(options_.op));
  }

  void Apply(Run& run) const override {
    MapImages(run, options_.field, stage_,
              [this](RandomStream& random, const ColorImage& in, uint8_t* out, RunArena& arena) {
                return DrawAndApply(random, in, out, arena);
              });
  }

 private:
  absl::Status DrawAndApply(RandomStream& random, const ColorImage& in, uint8_t* out,
                            RunArena& arena) const {
    const std::optional<float> factor = DrawColor(options_, random);
    if (!factor) {
      std::copy_n(in.data, in.size(), out);
      return absl::OkStatus();
    }
    if (options_.op != ColorOp::kGaussianBlur) {
      ApplyColor(options_.op, in, *factor, out);
      return absl::OkStatus();
    }
    if (std::min(in.height, in.width) <= options_.kernel_size / 2) {
      return RowError(RecordErrorReason::kValue,
                      absl::StrCat("image of ", in.height, " x ", in.width,
                                   " pixels is too small for a kernel of ", options_.kernel_size));
    }
    GaussianBlur(in, options_.kernel_size, *factor, out, arena);
    return absl::OkStatus();
  }

  const ColorOptions options_;
  const uint64_t stage_;
};

class ColorJitter final : public Op {
 public:
  ColorJitter(ColorJitterOptions options, uint64_t stage)
      : options_(std::move(options)), stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return ResolveColorImage(input, options_.field, "color_jitter");
  }

  void Apply(Run& run) const override {
    MapImages(run, options_.field, stage_,
              [this](RandomStream& random, const ColorImage& in, uint8_t* out, RunArena&) {
                DrawAndApply(random, in, out);
                return absl::OkStatus();
              });
  }

 private:
  void DrawAndApply(RandomStream& random, const ColorImage& in, uint8_t* out) const {
    std::copy_n(in.data, in.size(), out);
    // None of the four looks at a pixel's neighbours, so each works in place.
    for (const DrawnColor& color : DrawColorJitter(options_, random)) {
      ApplyColor(color.op, {out, in.height, in.width, in.channels}, color.factor, out);
    }
  }

  const ColorJitterOptions options_;
  const uint64_t stage_;
};

absl::Status Validate(const ColorOptions& options) {
  const std::string_view name = NameOf(options.op);
  MILLRACE_RETURN_IF_ERROR(CheckNumber(name, "probability", options.probability, 0, 1));
  const auto [least, largest] = FactorLimits(options.op);
  const auto [low, high] = options.factor;
  if (largest > least) {
    MILLRACE_RETURN_IF_ERROR(CheckRange(name, "factor", options.factor, least, largest));
  }
  if (options.op == ColorOp::kPosterize && (low != high || low != std::nearbyint(low))) {
    return absl::InvalidArgumentError("posterize: bits must be an integer");
  }
  const int64_t kernel = options.kernel_size;
  if (options.op == ColorOp::kGaussianBlur &&
      (kernel < 1 || kernel > kMaxKernel || kernel % 2 == 0)) {
    return absl::InvalidArgumentError(absl::StrCat("gaussian_blur: kernel_size is ", kernel,
                                                   "; expected an odd number, 1 to ", kMaxKernel));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<float> DrawColor(const ColorOptions& options, RandomStream& random) {
  if (random.NextFloat() >= options.probability) return std::nullopt;
  const bool has_factor = FactorLimits(options.op) != std::array<float, 2>{0, 0};
  return has_factor ? DrawFactor(options.factor, random) : 0;
}

absl::InlinedVector<DrawnColor, 4> DrawColorJitter(const ColorJitterOptions& options,
                                                   RandomStream& random) {
  if (random.NextFloat() >= options.probability) return {};
  std::array<size_t, 4> order = {0, 1, 2, 3};
  for (size_t last = 3; last > 0; --last) std::swap(order[last], order[random.Below(last + 1)]);
  constexpr ColorOp kOps[] = {ColorOp::kBrightness, ColorOp::kContrast, ColorOp::kSaturation,
                              ColorOp::kHue};
  const float by[] = {options.brightness, options.contrast, options.saturation, options.hue};
  std::array<float, 4> factors;
  for (size_t i = 0; i < 4; ++i) {
    const float middle = kOps[i] == ColorOp::kHue ? 0 : 1;
    const float low = kOps[i] == ColorOp::kHue ? -by[i] : std::max(0.0f, 1 - by[i]);
    factors[i] = DrawFactor({low, middle + by[i]}, random);
  }
  absl::InlinedVector<DrawnColor, 4> drawn;
  for (const size_t i : order) {
    if (by[i] > 0) drawn.push_back({kOps[i], factors[i]});
  }
  return drawn;
}

std::string_view NameOf(ColorOp op) { return FactsOf(op).name; }

std::array<float, 2> FactorLimits(ColorOp op) { return FactsOf(op).limits; }

absl::StatusOr<std::unique_ptr<Op>> MakeColor(ColorOptions options, const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  return std::make_unique<Color>(std::move(options), HashName(stage));
}

absl::StatusOr<std::unique_ptr<Op>> MakeColorJitter(ColorJitterOptions options,
                                                    const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber("color_jitter", "probability", options.probability, 0, 1));
  for (const float by : {options.brightness, options.contrast, options.saturation}) {
    if (by >= 0 && by < kMaxFactor) continue;
    return absl::InvalidArgumentError(absl::StrCat("color_jitter: a factor may differ by ", by,
                                                   " from 1; expected 0 to below ", kMaxFactor));
  }
  MILLRACE_RETURN_IF_ERROR(CheckNumber("color_jitter", "hue", options.hue, 0, 0.5f));
  return std::make_unique<ColorJitter>(options, HashName(stage));
}

}  // namespace millrace::augment
