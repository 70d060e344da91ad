#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "augment/color_ops.h"
#include "base/shape.h"
#include "base/status.h"
#include "pipeline/plan/check.h"
#include "pipeline/plan/words.h"
#include "pipeline/stages/mixing.h"

// The range of every option of the maps of images, but for decode_image and random_resized_crop.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxExtent = 1 << 16;  // of an image's side
constexpr uint64_t kMaxPad = 4096;
constexpr uint64_t kMaxChannels = 1 << 16;
constexpr uint64_t kMaxKernel = 127;
constexpr uint64_t kMaxTransforms = 16;
constexpr uint64_t kMaxBins = 1000;
constexpr float kMaxJitter = 99;

class ImageChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  absl::Status Resize(const proto::Resize& resize) const;
  absl::Status Flip(const proto::Flip& flip) const;
  absl::Status Pad(const proto::Pad& pad) const;
  absl::Status Transpose(const proto::Transpose& transpose) const;
  absl::Status PadChannels(const proto::PadChannels& pad) const;
  absl::Status Posterize(const proto::Posterize& posterize) const;
  absl::Status Solarize(const proto::Solarize& solarize) const;
  absl::Status Blur(const proto::GaussianBlur& blur) const;
  absl::Status Jitter(const proto::ColorJitter& jitter) const;
  absl::Status Adjust(augment::ColorOp op, const proto::Adjust& adjust) const;
  absl::Status Recolor(const proto::Recolor& recolor) const;
  absl::Status Affine(const proto::Affine& affine) const;
  absl::Status Erasing(const proto::RandomErasing& erasing) const;
  absl::Status Cutout(const proto::Cutout& cutout) const;
  absl::Status AutoAugment(const proto::AutoAugment& augment) const;
  absl::Status AugMix(const proto::AugMix& mix) const;
  absl::Status Smoothing(const proto::LabelSmoothing& smoothing) const;

 private:
  template <typename Value, size_t kSize>
  absl::Status IsOneOf(std::string_view field, const Words<Value, kSize>& words,
                       const std::string& word) const {
    if (Find(words, word)) return absl::OkStatus();
    return Error(field, absl::StrCat(" is \"", word, "\" but must be ", ListOf(words)));
  }

  absl::Status IsProbability(float probability) const {
    if (probability >= 0 && probability <= 1) return absl::OkStatus();
    return Error("probability", absl::StrCat(" is ", probability, " but must be in [0, 1]"));
  }

  // One number or two, low <= high, in [least, most].
  template <typename Numbers>
  absl::Status IsRange(std::string_view field, const Numbers& numbers, float least,
                       float most) const {
    const int size = numbers.size();
    if ((size == 1 || size == 2) && numbers[0] >= least && numbers[0] <= numbers[size - 1] &&
        numbers[size - 1] <= most) {
      return absl::OkStatus();
    }
    return Error(field, absl::StrCat(" must be one number, or two, low <= high, in [", least, ", ",
                                     most, "]"));
  }

  // The same, of an op's factor.
  template <typename Numbers>
  absl::Status IsFactor(std::string_view field, augment::ColorOp op, const Numbers& numbers) const {
    const auto [least, most] = augment::FactorLimits(op);
    return IsRange(field, numbers, least, most);
  }

  absl::Status IsFill(float fill) const {
    if (fill >= 0 && fill <= 255) return absl::OkStatus();
    return Error("fill", absl::StrCat(" is ", fill, " but must be in [0, 255]"));
  }

  absl::Status IsFinite(std::string_view field, float value) const {
    return std::isfinite(value) ? absl::OkStatus() : Error(field, " must be finite");
  }
};

absl::Status ImageChecker::Resize(const proto::Resize& resize) const {
  if (resize.shorter() == 0) {
    MILLRACE_RETURN_IF_ERROR(Size(resize.field(), resize.height(), resize.width()));
  } else if (resize.height() != 0 || resize.width() != 0) {
    return Error("shorter", " stands instead of height and width");
  } else {
    MILLRACE_RETURN_IF_ERROR(InRange("shorter", resize.shorter(), 1, kMaxExtent));
  }
  MILLRACE_RETURN_IF_ERROR(Interpolation("method", resize.method(), resize.antialias()));
  const proto::DataType dtype = resize.dtype();
  if (dtype == proto::DATA_TYPE_UNSPECIFIED || dtype == proto::UINT8 || dtype == proto::FLOAT32) {
    return absl::OkStatus();
  }
  return Error("dtype", " must be UINT8 or FLOAT32");
}

absl::Status ImageChecker::Flip(const proto::Flip& flip) const {
  return IsProbability(flip.probability());
}

absl::Status ImageChecker::Pad(const proto::Pad& pad) const {
  MILLRACE_RETURN_IF_ERROR(InRange("top", pad.top(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(InRange("bottom", pad.bottom(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(InRange("left", pad.left(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(InRange("right", pad.right(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(IsOneOf("mode", kPadModes, pad.mode()));
  return IsFinite("value", pad.value());
}

absl::Status ImageChecker::Transpose(const proto::Transpose& transpose) const {
  const int size = transpose.perm_size();
  if (size >= Shape::kMaxRank) {
    return Error("perm", absl::StrCat(" has more than ", Shape::kMaxRank - 1, " numbers"));
  }
  for (int i = 0; i < size; ++i) {
    if (std::ranges::count(transpose.perm(), static_cast<uint32_t>(i)) == 1) continue;
    return Error("perm", absl::StrCat(" must have every number from 0 to ", size - 1, " once"));
  }
  return absl::OkStatus();
}

absl::Status ImageChecker::PadChannels(const proto::PadChannels& pad) const {
  MILLRACE_RETURN_IF_ERROR(InRange("channels", pad.channels(), 1, kMaxChannels));
  return IsFinite("value", pad.value());
}

absl::Status ImageChecker::Posterize(const proto::Posterize& posterize) const {
  MILLRACE_RETURN_IF_ERROR(InRange("bits", posterize.bits(), 1, 8));
  return IsProbability(posterize.probability());
}

absl::Status ImageChecker::Solarize(const proto::Solarize& solarize) const {
  const float threshold = solarize.threshold();
  if (!(threshold >= 0 && threshold <= 256)) {
    return Error("threshold", absl::StrCat(" is ", threshold, " but must be in [0, 256]"));
  }
  return IsProbability(solarize.probability());
}

absl::Status ImageChecker::Blur(const proto::GaussianBlur& blur) const {
  MILLRACE_RETURN_IF_ERROR(InRange("kernel_size", blur.kernel_size(), 1, kMaxKernel));
  if (blur.kernel_size() % 2 == 0) return Error("kernel_size", " must be odd");
  MILLRACE_RETURN_IF_ERROR(IsFactor("sigma", augment::ColorOp::kGaussianBlur, blur.sigma()));
  return IsProbability(blur.probability());
}

absl::Status ImageChecker::Jitter(const proto::ColorJitter& jitter) const {
  const auto in_range = [this](std::string_view field, float value, float most) {
    if (value >= 0 && value <= most) return absl::OkStatus();
    return Error(field, absl::StrCat(" is ", value, " but must be in [0, ", most, "]"));
  };
  MILLRACE_RETURN_IF_ERROR(in_range("brightness", jitter.brightness(), kMaxJitter));
  MILLRACE_RETURN_IF_ERROR(in_range("contrast", jitter.contrast(), kMaxJitter));
  MILLRACE_RETURN_IF_ERROR(in_range("saturation", jitter.saturation(), kMaxJitter));
  MILLRACE_RETURN_IF_ERROR(in_range("hue", jitter.hue(), 0.5f));
  return IsProbability(jitter.probability());
}

absl::Status ImageChecker::Adjust(augment::ColorOp op, const proto::Adjust& adjust) const {
  MILLRACE_RETURN_IF_ERROR(IsFactor("factor", op, adjust.factor()));
  return IsProbability(adjust.probability());
}

absl::Status ImageChecker::Recolor(const proto::Recolor& recolor) const {
  return IsProbability(recolor.probability());
}

absl::Status ImageChecker::Affine(const proto::Affine& affine) const {
  MILLRACE_RETURN_IF_ERROR(IsRange("degrees", affine.degrees(), -360, 360));
  const auto& shift = affine.translate();
  const auto is_share = [](float share) { return share >= 0 && share <= 1; };
  if (shift.size() != 2 || !std::ranges::all_of(shift, is_share)) {
    return Error("translate", " must be two numbers in [0, 1]");
  }
  MILLRACE_RETURN_IF_ERROR(IsRange("scale", affine.scale(), 0.01f, 100));
  MILLRACE_RETURN_IF_ERROR(IsRange("shear_x", affine.shear_x(), -89, 89));
  MILLRACE_RETURN_IF_ERROR(IsRange("shear_y", affine.shear_y(), -89, 89));
  MILLRACE_RETURN_IF_ERROR(IsOneOf("method", kAffineMethods, affine.method()));
  MILLRACE_RETURN_IF_ERROR(IsFill(affine.fill()));
  return IsProbability(affine.probability());
}

absl::Status ImageChecker::Erasing(const proto::RandomErasing& erasing) const {
  MILLRACE_RETURN_IF_ERROR(IsRange("area", erasing.area(), 0, 1));
  MILLRACE_RETURN_IF_ERROR(IsRange("aspect", erasing.aspect(), 0.001f, 1000));
  MILLRACE_RETURN_IF_ERROR(IsFinite("value", erasing.value()));
  return IsProbability(erasing.probability());
}

absl::Status ImageChecker::Cutout(const proto::Cutout& cutout) const {
  MILLRACE_RETURN_IF_ERROR(InRange("size", cutout.size(), 1, kMaxExtent));
  MILLRACE_RETURN_IF_ERROR(IsFinite("value", cutout.value()));
  return IsProbability(cutout.probability());
}

absl::Status ImageChecker::AutoAugment(const proto::AutoAugment& augment) const {
  MILLRACE_RETURN_IF_ERROR(IsOneOf("policy", kAugmentPolicies, augment.policy()));
  MILLRACE_RETURN_IF_ERROR(InRange("num_ops", augment.num_ops(), 1, kMaxTransforms));
  MILLRACE_RETURN_IF_ERROR(
      InRange("num_magnitude_bins", augment.num_magnitude_bins(), 2, kMaxBins));
  MILLRACE_RETURN_IF_ERROR(
      InRange("magnitude", augment.magnitude(), 0, augment.num_magnitude_bins() - 1));
  MILLRACE_RETURN_IF_ERROR(IsOneOf("method", kAffineMethods, augment.method()));
  return IsFill(augment.fill());
}

absl::Status ImageChecker::AugMix(const proto::AugMix& mix) const {
  MILLRACE_RETURN_IF_ERROR(InRange("severity", mix.severity(), 1, 10));
  MILLRACE_RETURN_IF_ERROR(InRange("mixture_width", mix.mixture_width(), 1, kMaxTransforms));
  MILLRACE_RETURN_IF_ERROR(InRange("chain_depth", mix.chain_depth(), 0, kMaxTransforms));
  if (!(mix.alpha() >= 0.001f && mix.alpha() <= 1000)) {
    return Error("alpha", absl::StrCat(" is ", mix.alpha(), " but must be in [0.001, 1000]"));
  }
  MILLRACE_RETURN_IF_ERROR(IsOneOf("method", kAffineMethods, mix.method()));
  return IsFill(mix.fill());
}

absl::Status ImageChecker::Smoothing(const proto::LabelSmoothing& smoothing) const {
  const float value = smoothing.smoothing();
  if (value >= 0 && value <= 1) return absl::OkStatus();
  return Error("smoothing", absl::StrCat(" is ", value, " but must be in [0, 1]"));
}

}  // namespace

absl::Status CheckImageOptions(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const ImageChecker check(at, i);
  const auto size = [&check](const auto& op) {
    return check.Size(op.field(), op.height(), op.width());
  };
  switch (stage.op_case()) {
    case proto::Stage::kResize:
      return check.Resize(stage.resize());
    case proto::Stage::kCenterCrop:
      return size(stage.center_crop());
    case proto::Stage::kRandomCrop:
      return size(stage.random_crop());
    case proto::Stage::kPad:
      return check.Pad(stage.pad());
    case proto::Stage::kTranspose:
      return check.Transpose(stage.transpose());
    case proto::Stage::kPadChannels:
      return check.PadChannels(stage.pad_channels());
    case proto::Stage::kBrightness:
      return check.Adjust(augment::ColorOp::kBrightness, stage.brightness());
    case proto::Stage::kContrast:
      return check.Adjust(augment::ColorOp::kContrast, stage.contrast());
    case proto::Stage::kSaturation:
      return check.Adjust(augment::ColorOp::kSaturation, stage.saturation());
    case proto::Stage::kHue:
      return check.Adjust(augment::ColorOp::kHue, stage.hue());
    case proto::Stage::kSharpness:
      return check.Adjust(augment::ColorOp::kSharpness, stage.sharpness());
    case proto::Stage::kGrayscale:
      return check.Recolor(stage.grayscale());
    case proto::Stage::kInvert:
      return check.Recolor(stage.invert());
    case proto::Stage::kEqualize:
      return check.Recolor(stage.equalize());
    case proto::Stage::kAutocontrast:
      return check.Recolor(stage.autocontrast());
    case proto::Stage::kMixup:
    case proto::Stage::kCutmix:
    case proto::Stage::kMixupOrCutmix:
      return CheckMixingOptions(at, i);
    case proto::Stage::kAugMix:
      return check.AugMix(stage.aug_mix());
    case proto::Stage::kAutoAugment:
      return check.AutoAugment(stage.auto_augment());
    case proto::Stage::kLabelSmoothing:
      return check.Smoothing(stage.label_smoothing());
    case proto::Stage::kAffine:
      return check.Affine(stage.affine());
    case proto::Stage::kRandomErasing:
      return check.Erasing(stage.random_erasing());
    case proto::Stage::kCutout:
      return check.Cutout(stage.cutout());
    case proto::Stage::kPosterize:
      return check.Posterize(stage.posterize());
    case proto::Stage::kSolarize:
      return check.Solarize(stage.solarize());
    case proto::Stage::kGaussianBlur:
      return check.Blur(stage.gaussian_blur());
    case proto::Stage::kColorJitter:
      return check.Jitter(stage.color_jitter());
    case proto::Stage::kFlip:
      return check.Flip(stage.flip());
    default:
      return CheckFieldOptions(at, i);
  }
}

}  // namespace millrace::pipeline
