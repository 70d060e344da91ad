#include "absl/status/status.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/stages/cut_ops.h"
#include "pipeline/stages/specs.h"

// Alone in its file, so that tests of the optimizer link without the ops.

namespace millrace::pipeline {
namespace {

struct Maker {
  using Result = absl::StatusOr<std::unique_ptr<Op>>;
  const std::string& stage;

  Result operator()(const readers::ParseExampleOptions& o) const {
    return readers::MakeParseExample(o);
  }
  Result operator()(const readers::ParseSequenceExampleOptions& o) const {
    return readers::MakeParseSequenceExample(o);
  }
  Result operator()(const readers::ParseFieldsOptions& o) const {
    return readers::MakeParseFields(o);
  }
  Result operator()(const augment::DecodeImageOptions& o) const {
    return augment::MakeDecodeImage(o);
  }
  Result operator()(const augment::RandomResizedCropOptions& o) const {
    return augment::MakeRandomResizedCrop(o, stage);
  }
  Result operator()(const DecodeRegionOptions& o) const {
    if (o.carry) return augment::MakeDecodeWithTargets(o.decode, *o.carry, stage);
    return augment::MakeDecodeCrop(o.decode, o.crop, stage);
  }
  Result operator()(const augment::TargetsOptions& o) const {
    return augment::MakeWithTargets(o, stage);
  }
  Result operator()(const DecodeToCropOptions& o) const {
    return augment::MakeDecodeImageToCrop(o.decode, o.crop, o.crop_stage);
  }
  Result operator()(const augment::PeekImageShapeOptions& o) const {
    return augment::MakePeekImageShape(o);
  }
  Result operator()(const augment::FusedImageOptions& o) const {
    return augment::MakeFusedImage(o);
  }
  Result operator()(const augment::ResizeOptions& o) const { return augment::MakeResize(o); }
  Result operator()(const augment::CenterCropOptions& o) const {
    return augment::MakeCenterCrop(o);
  }
  Result operator()(const augment::RandomCropOptions& o) const {
    return augment::MakeRandomCrop(o, stage);
  }
  Result operator()(const augment::PadOptions& o) const { return augment::MakePad(o); }
  Result operator()(const augment::TransposeOptions& o) const { return augment::MakeTranspose(o); }
  Result operator()(const augment::PadChannelsOptions& o) const {
    return augment::MakePadChannels(o);
  }
  Result operator()(const augment::ColorOptions& o) const { return augment::MakeColor(o, stage); }
  Result operator()(const augment::ColorJitterOptions& o) const {
    return augment::MakeColorJitter(o, stage);
  }
  Result operator()(const augment::AffineOptions& o) const { return augment::MakeAffine(o, stage); }
  Result operator()(const augment::RandomErasingOptions& o) const {
    return augment::MakeRandomErasing(o, stage);
  }
  Result operator()(const augment::CutoutOptions& o) const { return augment::MakeCutout(o, stage); }
  Result operator()(const augment::AugMixOptions& o) const { return augment::MakeAugMix(o, stage); }
  Result operator()(const augment::AutoAugmentOptions& o) const {
    return augment::MakeAutoAugment(o, stage);
  }
  Result operator()(const augment::LabelSmoothingOptions& o) const {
    return augment::MakeLabelSmoothing(o);
  }
  Result operator()(const augment::FlipOptions& o) const { return augment::MakeFlip(o, stage); }
  Result operator()(const augment::NormalizeOptions& o) const { return augment::MakeNormalize(o); }
  Result operator()(const augment::CastOptions& o) const { return augment::MakeCast(o); }
  Result operator()(const augment::OneHotOptions& o) const { return augment::MakeOneHot(o); }
  Result operator()(const augment::VocabularyOptions& o) const {
    return augment::MakeVocabulary(o);
  }
  Result operator()(const augment::PadTokensOptions& o) const { return augment::MakePadTokens(o); }
  Result operator()(const augment::ScaleOptions& o) const { return augment::MakeScale(o); }
  Result operator()(const augment::LogOptions& o) const { return augment::MakeLog(o); }
  Result operator()(const augment::BucketizeOptions& o) const { return augment::MakeBucketize(o); }
  Result operator()(const augment::HashOptions& o) const { return augment::MakeHash(o); }
  Result operator()(const augment::ClipOptions& o) const { return augment::MakeClip(o); }
  Result operator()(const augment::FillMissingOptions& o) const {
    return augment::MakeFillMissing(o);
  }
  Result operator()(const augment::StackOptions& o) const { return augment::MakeStack(o); }
  Result operator()(const readers::DecodeRawOptions& o) const { return readers::MakeDecodeRaw(o); }
  Result operator()(const IdentityOptions&) const { return MakeIdentity(); }
  Result operator()(const UnbatchOptions& o) const { return MakeUnbatchSlice(o.fields); }
  Result operator()(const CustomOptions&) const { return NotHere(); }
  Result operator()(const FilterOptions&) const { return NotHere(); }

  // REQUIRES of OpFactory.
  static absl::Status NotHere() { return absl::InternalError("not an op of the program"); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeBuiltinOp(const OpSpec& spec) {
  return std::visit(Maker{spec.stage}, spec.options);
}

absl::StatusOr<PhysicalPlan> BuildPhysicalPlan(const Plan& plan, const OptimizerOptions& options) {
  return MakePhysicalPlan(plan, options, MakeBuiltinOp);
}

}  // namespace millrace::pipeline
