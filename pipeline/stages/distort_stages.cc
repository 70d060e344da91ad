#include <algorithm>
#include <initializer_list>

#include "pipeline/plan/limits.h"
#include "pipeline/stages/convert.h"
#include "pipeline/stages/row.h"

// Maps that distort images, cover parts of them, or draw such changes by a policy.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxTransforms = 16;
constexpr uint64_t kMaxBins = 1000;

void DefaultNumbers(google::protobuf::RepeatedField<float>* numbers,
                    std::initializer_list<float> values) {
  if (numbers->empty()) numbers->Add(values.begin(), values.end());
}

void FillAffine(proto::Affine* affine) {
  FillChange(affine);
  DefaultNumbers(affine->mutable_degrees(), {0});
  DefaultNumbers(affine->mutable_translate(), {0, 0});
  DefaultNumbers(affine->mutable_scale(), {1});
  DefaultNumbers(affine->mutable_shear_x(), {0});
  DefaultNumbers(affine->mutable_shear_y(), {0});
  Default(affine->mutable_method(), "nearest");
}

absl::Status CheckAffine(const OptionsChecker& check, const proto::Affine& affine) {
  MILLRACE_RETURN_IF_ERROR(check.IsRange("degrees", affine.degrees(), -360, 360));
  const auto& shift = affine.translate();
  const auto is_fraction = [](float value) { return value >= 0 && value <= 1; };
  if (shift.size() != 2 || !std::ranges::all_of(shift, is_fraction)) {
    return check.Error("translate", " must be two numbers in [0, 1]");
  }
  MILLRACE_RETURN_IF_ERROR(check.IsRange("scale", affine.scale(), 0.01f, 100));
  MILLRACE_RETURN_IF_ERROR(check.IsRange("shear_x", affine.shear_x(), -89, 89));
  MILLRACE_RETURN_IF_ERROR(check.IsRange("shear_y", affine.shear_y(), -89, 89));
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("method", kAffineMethods, affine.method()));
  MILLRACE_RETURN_IF_ERROR(check.IsFill(affine.fill()));
  return check.IsProbability(affine.probability());
}

OpOptions ToAffine(const proto::Affine& affine) {
  augment::AffineOptions options;
  options.field = affine.field();
  options.degrees = ToRange(affine.degrees());
  options.translate = ToRange(affine.translate());
  options.scale = ToRange(affine.scale());
  options.shear_x = ToRange(affine.shear_x());
  options.shear_y = ToRange(affine.shear_y());
  options.bilinear = *Find(kAffineMethods, affine.method());
  options.fill = affine.fill();
  options.probability = affine.probability();
  return options;
}

absl::Status CheckCutout(const OptionsChecker& check, const proto::Cutout& cutout) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("size", cutout.size(), 1, kMaxExtent));
  MILLRACE_RETURN_IF_ERROR(check.IsFinite("value", cutout.value()));
  return check.IsProbability(cutout.probability());
}

OpOptions ToCutout(const proto::Cutout& cutout) {
  return augment::CutoutOptions{cutout.field(), cutout.size(), cutout.probability(),
                                cutout.value()};
}

void FillErasing(proto::RandomErasing* erasing) {
  FillImageField(erasing);
  DefaultNumbers(erasing->mutable_area(), {0.02f, 0.33f});
  DefaultNumbers(erasing->mutable_aspect(), {0.3f, 3.3f});
  if (!erasing->has_probability()) erasing->set_probability(0.5f);
}

absl::Status CheckErasing(const OptionsChecker& check, const proto::RandomErasing& erasing) {
  MILLRACE_RETURN_IF_ERROR(check.IsRange("area", erasing.area(), 0, 1));
  MILLRACE_RETURN_IF_ERROR(check.IsRange("aspect", erasing.aspect(), 0.001f, 1000));
  MILLRACE_RETURN_IF_ERROR(check.IsFinite("value", erasing.value()));
  return check.IsProbability(erasing.probability());
}

OpOptions ToErasing(const proto::RandomErasing& erasing) {
  augment::RandomErasingOptions options;
  options.field = erasing.field();
  options.probability = erasing.probability();
  options.area = ToRange(erasing.area());
  options.aspect = ToRange(erasing.aspect());
  options.value = erasing.value();
  return options;
}

void FillAutoAugment(proto::AutoAugment* augment) {
  FillImageField(augment);
  Default(augment->mutable_policy(), "rand_augment");
  if (augment->num_ops() == 0) augment->set_num_ops(2);
  if (!augment->has_magnitude()) augment->set_magnitude(9);
  if (augment->num_magnitude_bins() == 0) augment->set_num_magnitude_bins(31);
  Default(augment->mutable_method(), "nearest");
}

absl::Status CheckAutoAugment(const OptionsChecker& check, const proto::AutoAugment& augment) {
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("policy", kAugmentPolicies, augment.policy()));
  MILLRACE_RETURN_IF_ERROR(check.InRange("num_ops", augment.num_ops(), 1, kMaxTransforms));
  MILLRACE_RETURN_IF_ERROR(
      check.InRange("num_magnitude_bins", augment.num_magnitude_bins(), 2, kMaxBins));
  MILLRACE_RETURN_IF_ERROR(
      check.InRange("magnitude", augment.magnitude(), 0, augment.num_magnitude_bins() - 1));
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("method", kAffineMethods, augment.method()));
  return check.IsFill(augment.fill());
}

OpOptions ToAutoAugment(const proto::AutoAugment& augment) {
  augment::AutoAugmentOptions options;
  options.field = augment.field();
  options.policy = *Find(kAugmentPolicies, augment.policy());
  options.num_ops = static_cast<int>(augment.num_ops());
  options.magnitude = static_cast<int>(augment.magnitude());
  options.num_magnitude_bins = static_cast<int>(augment.num_magnitude_bins());
  options.bilinear = *Find(kAffineMethods, augment.method());
  options.fill = augment.fill();
  return options;
}

void FillAugMix(proto::AugMix* mix) {
  FillImageField(mix);
  if (mix->severity() == 0) mix->set_severity(3);
  if (mix->mixture_width() == 0) mix->set_mixture_width(3);
  if (!mix->has_alpha()) mix->set_alpha(1);
  if (!mix->has_all_ops()) mix->set_all_ops(true);
  Default(mix->mutable_method(), "bilinear");
}

absl::Status CheckAugMix(const OptionsChecker& check, const proto::AugMix& mix) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("severity", mix.severity(), 1, 10));
  MILLRACE_RETURN_IF_ERROR(check.InRange("mixture_width", mix.mixture_width(), 1, kMaxTransforms));
  MILLRACE_RETURN_IF_ERROR(check.InRange("chain_depth", mix.chain_depth(), 0, kMaxTransforms));
  MILLRACE_RETURN_IF_ERROR(check.IsAlpha("alpha", mix.alpha()));
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("method", kAffineMethods, mix.method()));
  return check.IsFill(mix.fill());
}

OpOptions ToAugMix(const proto::AugMix& mix) {
  augment::AugMixOptions options;
  options.field = mix.field();
  options.severity = static_cast<int>(mix.severity());
  options.mixture_width = static_cast<int>(mix.mixture_width());
  options.chain_depth = static_cast<int>(mix.chain_depth());
  options.alpha = mix.alpha();
  options.all_ops = mix.all_ops();
  options.bilinear = *Find(kAffineMethods, mix.method());
  options.fill = mix.fill();
  return options;
}

template <typename Options, auto kMake>
constexpr OpRow DistortOp() {
  return {.index = IndexOf<Options>(),
          .fields = InPlace<Options>,
          .draws = true,
          .make = MakeBy<Options, kMake>};
}

constexpr OpRow kAffineOp = DistortOp<augment::AffineOptions, augment::MakeAffine>();
constexpr OpRow kCutoutOp = DistortOp<augment::CutoutOptions, augment::MakeCutout>();
constexpr OpRow kErasingOp = DistortOp<augment::RandomErasingOptions, augment::MakeRandomErasing>();
constexpr OpRow kAutoAugmentOp = DistortOp<augment::AutoAugmentOptions, augment::MakeAutoAugment>();
constexpr OpRow kAugMixOp = DistortOp<augment::AugMixOptions, augment::MakeAugMix>();

constexpr Option kMethod = {"method", R"(of transforms that move pixels: `"nearest"` or )"
                                      R"(`"bilinear"`)"};
constexpr Option kFill = {"fill", "of what the image does not cover"};

constexpr StageRow kDistortRows[] = {
    {.op_case = Stage::kAffine,
     .name = "affine",
     .doc = "The image turned, shifted, scaled and sheared around its middle.",
     .options = {kImageField,
                 {"degrees", "clockwise: one number, or two between which it is drawn"},
                 {"translate", "the largest shift in x and in y, as a share of width and height"},
                 {"scale", "one number, or two between which it is drawn"},
                 {"shear_x", "degrees; one number, or two between which it is drawn"},
                 {"shear_y", "the same"},
                 {"method", R"(`"nearest"` or `"bilinear"`)"},
                 kFill,
                 kProbability},
     .fill = Fill<&Stage::mutable_affine, FillAffine>,
     .check = Check<&Stage::affine, CheckAffine>,
     .read = Read<&Stage::affine, ToAffine>,
     .op = &kAffineOp,
     .keeps_values = true},
    {.op_case = Stage::kCutout,
     .name = "cutout",
     .doc = "A square of a constant anywhere, of which a part may lie beyond the image.",
     .options = {kImageField, {"size", "pixels", kRequired}, {"value", ""}, kProbability},
     .fill = Fill<&Stage::mutable_cutout, FillChange<proto::Cutout>>,
     .check = Check<&Stage::cutout, CheckCutout>,
     .read = Read<&Stage::cutout, ToCutout>,
     .op = &kCutoutOp,
     .keeps_values = true},
    {.op_case = Stage::kRandomErasing,
     .name = "random_erasing",
     .doc = "A rectangle of a constant.",
     .options = {kImageField,
                 {"area", "low and high, shares of the image's"},
                 {"aspect", "low and high, height / width"},
                 {"value", ""},
                 kProbability},
     .fill = Fill<&Stage::mutable_random_erasing, FillErasing>,
     .check = Check<&Stage::random_erasing, CheckErasing>,
     .read = Read<&Stage::random_erasing, ToErasing>,
     .op = &kErasingOp,
     .keeps_values = true},
    {.op_case = Stage::kAutoAugment,
     .name = "auto_augment",
     .doc = "Transforms that are drawn by a policy of torchvision's.",
     .options = {kImageField,
                 {"policy", R"(`"rand_augment"`, `"trivial_augment"` (wide) or `"imagenet"` )"
                            "(AutoAugment)"},
                 {"num_ops", "of rand_augment"},
                 {"magnitude", "of rand_augment"},
                 {"num_magnitude_bins", "of rand_augment and trivial_augment"},
                 kMethod,
                 kFill},
     .fill = Fill<&Stage::mutable_auto_augment, FillAutoAugment>,
     .check = Check<&Stage::auto_augment, CheckAutoAugment>,
     .read = Read<&Stage::auto_augment, ToAutoAugment>,
     .op = &kAutoAugmentOp,
     .keeps_values = true},
    {.op_case = Stage::kAugMix,
     .name = "aug_mix",
     .doc = "Chains of transforms drawn as torchvision's AugMix does, mixed with the image itself.",
     .options = {kImageField,
                 {"severity", "the highest of ten magnitudes that are drawn, 1 to 10"},
                 {"mixture_width", "chains"},
                 {"chain_depth", "transforms of each chain", "0: 1 to 3, drawn"},
                 {"alpha", "of the Dirichlet and Beta distributions of the weights"},
                 {"all_ops", "transforms that change colours strongly too"},
                 kMethod,
                 kFill},
     .fill = Fill<&Stage::mutable_aug_mix, FillAugMix>,
     .check = Check<&Stage::aug_mix, CheckAugMix>,
     .read = Read<&Stage::aug_mix, ToAugMix>,
     .op = &kAugMixOp,
     .keeps_values = true},
};

}  // namespace

constinit const StageFamily kDistortStages = {"distort", "Distortions and policies", kDistortRows};

}  // namespace millrace::pipeline
