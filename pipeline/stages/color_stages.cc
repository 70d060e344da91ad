#include <string>

#include "pipeline/stages/row.h"

// Maps that change the colours of an image.

namespace millrace::pipeline {
namespace {

using augment::ColorOp;
using proto::Stage;

constexpr uint64_t kMaxKernel = 127;
constexpr float kMaxJitter = 99;

void FillSolarize(proto::Solarize* solarize) {
  FillChange(solarize);
  if (!solarize->has_threshold()) solarize->set_threshold(128);
}

void FillBlur(proto::GaussianBlur* blur) {
  FillChange(blur);
  if (!blur->sigma().empty()) return;
  blur->add_sigma(0.1f);
  blur->add_sigma(2);
}

// The range of an op's factor.
template <typename Numbers>
absl::Status IsFactor(const OptionsChecker& check, std::string_view field, ColorOp op,
                      const Numbers& numbers) {
  const auto [least, most] = augment::FactorLimits(op);
  return check.IsRange(field, numbers, least, most);
}

template <ColorOp kOp>
absl::Status CheckAdjust(const OptionsChecker& check, const proto::Adjust& adjust) {
  MILLRACE_RETURN_IF_ERROR(IsFactor(check, "factor", kOp, adjust.factor()));
  return check.IsProbability(adjust.probability());
}

absl::Status CheckPosterize(const OptionsChecker& check, const proto::Posterize& posterize) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("bits", posterize.bits(), 1, 8));
  return check.IsProbability(posterize.probability());
}

absl::Status CheckSolarize(const OptionsChecker& check, const proto::Solarize& solarize) {
  const float threshold = solarize.threshold();
  if (!(threshold >= 0 && threshold <= 256)) {
    return check.Error("threshold", absl::StrCat(" is ", threshold, " but must be in [0, 256]"));
  }
  return check.IsProbability(solarize.probability());
}

absl::Status CheckBlur(const OptionsChecker& check, const proto::GaussianBlur& blur) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("kernel_size", blur.kernel_size(), 1, kMaxKernel));
  if (blur.kernel_size() % 2 == 0) return check.Error("kernel_size", " must be odd");
  MILLRACE_RETURN_IF_ERROR(IsFactor(check, "sigma", ColorOp::kGaussianBlur, blur.sigma()));
  return check.IsProbability(blur.probability());
}

absl::Status CheckJitter(const OptionsChecker& check, const proto::ColorJitter& jitter) {
  const auto in_range = [&](std::string_view field, float value, float most) {
    if (value >= 0 && value <= most) return absl::OkStatus();
    return check.Error(field, absl::StrCat(" is ", value, " but must be in [0, ", most, "]"));
  };
  MILLRACE_RETURN_IF_ERROR(in_range("brightness", jitter.brightness(), kMaxJitter));
  MILLRACE_RETURN_IF_ERROR(in_range("contrast", jitter.contrast(), kMaxJitter));
  MILLRACE_RETURN_IF_ERROR(in_range("saturation", jitter.saturation(), kMaxJitter));
  MILLRACE_RETURN_IF_ERROR(in_range("hue", jitter.hue(), 0.5f));
  return check.IsProbability(jitter.probability());
}

// The options that all ops on colours have.
template <typename Message>
augment::ColorOptions ToColor(ColorOp op, const Message& message) {
  augment::ColorOptions options;
  options.op = op;
  options.field = message.field();
  options.probability = message.probability();
  return options;
}

template <ColorOp kOp>
OpOptions ToAdjust(const proto::Adjust& adjust) {
  augment::ColorOptions options = ToColor(kOp, adjust);
  const auto& factor = adjust.factor();  // one number or two
  options.factor = {factor[0], factor[factor.size() - 1]};
  return options;
}

template <ColorOp kOp>
OpOptions ToRecolor(const proto::Recolor& recolor) {
  return ToColor(kOp, recolor);
}

OpOptions ToPosterize(const proto::Posterize& posterize) {
  augment::ColorOptions options = ToColor(ColorOp::kPosterize, posterize);
  const auto bits = static_cast<float>(posterize.bits());
  options.factor = {bits, bits};
  return options;
}

OpOptions ToSolarize(const proto::Solarize& solarize) {
  augment::ColorOptions options = ToColor(ColorOp::kSolarize, solarize);
  options.factor = {solarize.threshold(), solarize.threshold()};
  return options;
}

OpOptions ToBlur(const proto::GaussianBlur& blur) {
  augment::ColorOptions options = ToColor(ColorOp::kGaussianBlur, blur);
  options.kernel_size = blur.kernel_size();
  const auto& sigma = blur.sigma();  // one number or two
  options.factor = {sigma[0], sigma[sigma.size() - 1]};
  return options;
}

OpOptions ToJitter(const proto::ColorJitter& jitter) {
  return augment::ColorJitterOptions{jitter.field(),    jitter.brightness(),
                                     jitter.contrast(), jitter.saturation(),
                                     jitter.hue(),      jitter.probability()};
}

std::string NameOfColor(const OpOptions& options) {
  return std::string(augment::NameOf(std::get<augment::ColorOptions>(options).op));
}

constexpr OpRow kColorOp = {.index = IndexOf<augment::ColorOptions>(),
                            .name = NameOfColor,
                            .fields = InPlace<augment::ColorOptions>,
                            .draws = true,
                            .make = MakeBy<augment::ColorOptions, augment::MakeColor>};
constexpr OpRow kJitterOp = {.index = IndexOf<augment::ColorJitterOptions>(),
                             .fields = InPlace<augment::ColorJitterOptions>,
                             .draws = true,
                             .make = MakeBy<augment::ColorJitterOptions, augment::MakeColorJitter>};

constexpr Option kFactor = {
    "factor", "one number, or two between which it is drawn; 1 changes nothing", kRequired};

template <auto kGet, auto kMutable, ColorOp kOp>
constexpr StageRow Adjust(Stage::OpCase op_case, const char* name, const char* doc,
                          Option factor = kFactor) {
  return {.op_case = op_case,
          .name = name,
          .doc = doc,
          .options = {kImageField, factor, kProbability},
          .fill = Fill<kMutable, FillChange<proto::Adjust>>,
          .check = Check<kGet, CheckAdjust<kOp>>,
          .read = Read<kGet, ToAdjust<kOp>>,
          .op = &kColorOp,
          .keeps_values = true};
}

template <auto kGet, auto kMutable, ColorOp kOp>
constexpr StageRow Recolor(Stage::OpCase op_case, const char* name, const char* doc) {
  return {.op_case = op_case,
          .name = name,
          .doc = doc,
          .options = {kImageField, kProbability},
          .fill = Fill<kMutable, FillChange<proto::Recolor>>,
          .check = Check<kGet, CheckProbability<proto::Recolor>>,
          .read = Read<kGet, ToRecolor<kOp>>,
          .op = &kColorOp,
          .keeps_values = true};
}

constexpr StageRow kColorRows[] = {
    Adjust<&Stage::brightness, &Stage::mutable_brightness, ColorOp::kBrightness>(
        Stage::kBrightness, "brightness", "The image brighter or darker."),
    Adjust<&Stage::contrast, &Stage::mutable_contrast, ColorOp::kContrast>(
        Stage::kContrast, "contrast", "Values farther from the image's mean, or nearer to it."),
    Adjust<&Stage::saturation, &Stage::mutable_saturation, ColorOp::kSaturation>(
        Stage::kSaturation, "saturation", "Colours farther from grey, or nearer to it."),
    Adjust<&Stage::sharpness, &Stage::mutable_sharpness, ColorOp::kSharpness>(
        Stage::kSharpness, "sharpness", "The image sharper or smoother."),
    Adjust<&Stage::hue, &Stage::mutable_hue, ColorOp::kHue>(
        Stage::kHue, "hue", "Hues turned on the circle of colours.",
        {"factor",
         "one number, or two between which it is drawn, in [-0.5, 0.5] turns; 0 changes nothing",
         kRequired}),
    Recolor<&Stage::grayscale, &Stage::mutable_grayscale, ColorOp::kGrayscale>(
        Stage::kGrayscale, "grayscale", "Grey in all channels."),
    Recolor<&Stage::invert, &Stage::mutable_invert, ColorOp::kInvert>(Stage::kInvert, "invert",
                                                                      "255 minus each value."),
    Recolor<&Stage::equalize, &Stage::mutable_equalize, ColorOp::kEqualize>(
        Stage::kEqualize, "equalize", "Values as often as each other, channel by channel."),
    Recolor<&Stage::autocontrast, &Stage::mutable_autocontrast, ColorOp::kAutocontrast>(
        Stage::kAutocontrast, "autocontrast",
        "Values stretched to the whole range, channel by channel."),
    {.op_case = Stage::kPosterize,
     .name = "posterize",
     .doc = "Values with fewer bits.",
     .options = {kImageField, {"bits", "bits that are kept, 1 to 8", kRequired}, kProbability},
     .fill = Fill<&Stage::mutable_posterize, FillChange<proto::Posterize>>,
     .check = Check<&Stage::posterize, CheckPosterize>,
     .read = Read<&Stage::posterize, ToPosterize>,
     .op = &kColorOp,
     .keeps_values = true},
    {.op_case = Stage::kSolarize,
     .name = "solarize",
     .doc = "Bright values inverted.",
     .options = {kImageField, {"threshold", "values from here on are inverted"}, kProbability},
     .fill = Fill<&Stage::mutable_solarize, FillSolarize>,
     .check = Check<&Stage::solarize, CheckSolarize>,
     .read = Read<&Stage::solarize, ToSolarize>,
     .op = &kColorOp,
     .keeps_values = true},
    {.op_case = Stage::kGaussianBlur,
     .name = "gaussian_blur",
     .doc = "The image smoothed by a Gaussian kernel.",
     .options = {kImageField,
                 {"kernel_size", "pixels, odd, at most 127", kRequired},
                 {"sigma", "one number, or two between which it is drawn"},
                 kProbability},
     .fill = Fill<&Stage::mutable_gaussian_blur, FillBlur>,
     .check = Check<&Stage::gaussian_blur, CheckBlur>,
     .read = Read<&Stage::gaussian_blur, ToBlur>,
     .op = &kColorOp,
     .keeps_values = true},
    {.op_case = Stage::kColorJitter,
     .name = "color_jitter",
     .doc = "Brightness, contrast, saturation and hue in random order, those that are not 0.",
     .options = {kImageField,
                 {"brightness",
                  "the factor's largest distance from 1; so are `contrast` and `saturation`"},
                 {"contrast", ""},
                 {"saturation", ""},
                 {"hue", "the factor's largest distance from 0, at most 0.5"},
                 kProbability},
     .fill = Fill<&Stage::mutable_color_jitter, FillChange<proto::ColorJitter>>,
     .check = Check<&Stage::color_jitter, CheckJitter>,
     .read = Read<&Stage::color_jitter, ToJitter>,
     .op = &kJitterOp,
     .keeps_values = true},
};

}  // namespace

constinit const StageFamily kColorStages = {"color", "Colours of images", kColorRows};

}  // namespace millrace::pipeline
