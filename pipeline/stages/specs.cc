#include "pipeline/stages/specs.h"

#include <array>
#include <optional>
#include <utility>

#include "pipeline/plan/message.h"
#include "pipeline/plan/words.h"
#include "pipeline/stages/carry.h"
#include "pipeline/stages/mixing.h"

namespace millrace::pipeline {
namespace {

DType ToDType(proto::DataType dtype) {
  // The same numbers, shifted by the message's UNSPECIFIED.
  static_assert(proto::BYTES == static_cast<int>(DType::kBytes) + 1);
  static_assert(proto::FLOAT64 == static_cast<int>(DType::kF64) + 1);
  return static_cast<DType>(static_cast<int>(dtype) - 1);
}

// Unknown extents are -1 on both sides.
Shape ToShape(const google::protobuf::RepeatedField<int64_t>& extents) {
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(extents.size())));
}

readers::FeatureSpec ToSpec(const proto::Feature& feature) {
  readers::FeatureSpec spec;
  spec.key = feature.key();
  spec.name = feature.name();
  spec.dtype = ToDType(feature.dtype());
  spec.shape = ToShape(feature.shape());
  spec.has_default = feature.default_case() != proto::Feature::DEFAULT_NOT_SET;
  spec.default_int = feature.default_int();
  spec.default_float = feature.default_float();
  spec.default_bytes = feature.default_bytes();
  return spec;
}

readers::FeatureSpec ToSpec(const proto::FeatureList& list) {
  readers::FeatureSpec spec;
  spec.key = list.key();
  spec.name = list.name();
  spec.dtype = ToDType(list.dtype());
  spec.shape = ToShape(list.shape()).Prepend(Shape::kUnknown);
  spec.per_step = true;
  spec.allow_missing = list.allow_missing();
  return spec;
}

template <typename Parse>
std::vector<readers::FeatureSpec> ToSpecs(const Parse& parse) {
  std::vector<readers::FeatureSpec> specs;
  for (const proto::Feature& feature : parse.feature()) specs.push_back(ToSpec(feature));
  return specs;
}

readers::ParseExampleOptions ToOptions(const proto::ParseExample& parse) {
  return {ToSpecs(parse), parse.field()};
}

readers::ParseSequenceExampleOptions ToOptions(const proto::ParseSequenceExample& parse) {
  readers::ParseSequenceExampleOptions options{ToSpecs(parse), parse.field()};
  for (const proto::FeatureList& list : parse.feature_list()) {
    options.features.push_back(ToSpec(list));
  }
  return options;
}

readers::ParseFieldsOptions ToOptions(const proto::ParseCsv& parse) {
  return {readers::RecordFormat::kCsv,
          ToSpecs(parse),
          parse.field(),
          {parse.column().begin(), parse.column().end()},
          parse.delimiter()[0]};
}

template <typename Parse>
readers::ParseFieldsOptions ToOptions(readers::RecordFormat format, const Parse& parse) {
  readers::ParseFieldsOptions options;
  options.format = format;
  options.features = ToSpecs(parse);
  options.field = parse.field();
  return options;
}

augment::DecodeImageOptions ToOptions(const proto::DecodeImage& decode) {
  augment::DecodeImageOptions options;
  options.field = decode.field();
  options.output = decode.output();
  options.channels = static_cast<int>(decode.channels());
  options.max_pixels = static_cast<int64_t>(decode.max_pixels());
  options.apply_exif_orientation = decode.apply_exif_orientation();
  options.max_scans = static_cast<int>(decode.max_scans());
  options.max_memory_bytes = static_cast<int64_t>(decode.max_memory_bytes());
  options.verify_full = decode.verify_full();
  options.allow_truncated = decode.allow_truncated();
  options.fast_dct = decode.fast_dct();
  options.fancy_upsampling = decode.fancy_upsampling();
  options.dct_downscale = decode.dct_downscale();
  return options;
}

augment::RandomResizedCropOptions ToOptions(const proto::RandomResizedCrop& crop) {
  augment::RandomResizedCropOptions options;
  options.field = crop.field();
  options.height = crop.height();
  options.width = crop.width();
  options.area = {crop.area(0), crop.area(1)};
  options.aspect = {crop.aspect(0), crop.aspect(1)};
  options.interpolation = *Find(kResizeMethods, crop.interpolation());
  options.antialias = crop.antialias();
  options.max_attempts = static_cast<int>(crop.max_attempts());
  return options;
}

augment::ResizeOptions ToOptions(const proto::Resize& resize) {
  augment::ResizeOptions options;
  options.field = resize.field();
  options.height = resize.height();
  options.width = resize.width();
  options.shorter = resize.shorter();
  options.method = *Find(kResizeMethods, resize.method());
  options.antialias = resize.antialias();
  if (resize.dtype() != proto::DATA_TYPE_UNSPECIFIED) options.dtype = ToDType(resize.dtype());
  return options;
}

augment::PadOptions ToOptions(const proto::Pad& pad) {
  augment::PadOptions options;
  options.field = pad.field();
  options.top = pad.top();
  options.bottom = pad.bottom();
  options.left = pad.left();
  options.right = pad.right();
  options.mode = *Find(kPadModes, pad.mode());
  options.value = pad.value();
  return options;
}

augment::ColorJitterOptions ToOptions(const proto::ColorJitter& jitter) {
  return {jitter.field(),      jitter.brightness(), jitter.contrast(),
          jitter.saturation(), jitter.hue(),        jitter.probability()};
}

// Of one number or two.
std::array<float, 2> ToRange(const google::protobuf::RepeatedField<float>& numbers) {
  return {numbers[0], numbers[numbers.size() - 1]};
}

augment::AffineOptions ToOptions(const proto::Affine& affine) {
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

augment::RandomErasingOptions ToOptions(const proto::RandomErasing& erasing) {
  augment::RandomErasingOptions options;
  options.field = erasing.field();
  options.probability = erasing.probability();
  options.area = ToRange(erasing.area());
  options.aspect = ToRange(erasing.aspect());
  options.value = erasing.value();
  return options;
}

augment::AutoAugmentOptions ToOptions(const proto::AutoAugment& augment) {
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

augment::AugMixOptions ToOptions(const proto::AugMix& mix) {
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

augment::NormalizeOptions ToOptions(const proto::Normalize& normalize) {
  augment::NormalizeOptions options;
  options.field = normalize.field();
  options.mean.assign(normalize.mean().begin(), normalize.mean().end());
  options.stddev.assign(normalize.stddev().begin(), normalize.stddev().end());
  return options;
}

readers::DecodeRawOptions ToOptions(const proto::DecodeRaw& decode) {
  return {decode.field(), decode.output(), ToDType(decode.dtype()), ToShape(decode.shape())};
}

std::optional<OpOptions> ToOptions(const proto::Stage& stage) {
  switch (stage.op_case()) {
    case proto::Stage::kParseExample:
      return ToOptions(stage.parse_example());
    case proto::Stage::kParseSequenceExample:
      return ToOptions(stage.parse_sequence_example());
    case proto::Stage::kParseCsv:
      return ToOptions(stage.parse_csv());
    case proto::Stage::kParseJson:
      return ToOptions(readers::RecordFormat::kJson, stage.parse_json());
    case proto::Stage::kParseTar:
      return ToOptions(readers::RecordFormat::kTar, stage.parse_tar());
    case proto::Stage::kDecodeImage:
      return ToOptions(stage.decode_image());
    case proto::Stage::kPeekImageShape:
      return augment::PeekImageShapeOptions{stage.peek_image_shape().field(),
                                            stage.peek_image_shape().output(),
                                            stage.peek_image_shape().apply_exif_orientation()};
    case proto::Stage::kRandomResizedCrop:
      return ToOptions(stage.random_resized_crop());
    case proto::Stage::kResize:
      return ToOptions(stage.resize());
    case proto::Stage::kCenterCrop:
      return augment::CenterCropOptions{stage.center_crop().field(), stage.center_crop().height(),
                                        stage.center_crop().width()};
    case proto::Stage::kRandomCrop:
      return augment::RandomCropOptions{stage.random_crop().field(), stage.random_crop().height(),
                                        stage.random_crop().width()};
    case proto::Stage::kPad:
      return ToOptions(stage.pad());
    case proto::Stage::kTranspose:
      return augment::TransposeOptions{
          stage.transpose().field(),
          {stage.transpose().perm().begin(), stage.transpose().perm().end()}};
    case proto::Stage::kPadChannels:
      return augment::PadChannelsOptions{stage.pad_channels().field(),
                                         stage.pad_channels().channels(),
                                         stage.pad_channels().value()};
    case proto::Stage::kFlip:
      return augment::FlipOptions{stage.flip().field(), stage.flip().probability(),
                                  stage.flip().vertical()};
    case proto::Stage::kNormalize:
      return ToOptions(stage.normalize());
    case proto::Stage::kCast:
      return augment::CastOptions{stage.cast().field(), ToDType(stage.cast().dtype()),
                                  stage.cast().scale()};
    case proto::Stage::kOneHot:
      return augment::OneHotOptions{stage.one_hot().field(), stage.one_hot().depth()};
    case proto::Stage::kDecodeRaw:
      return ToOptions(stage.decode_raw());
    case proto::Stage::kIdentity:
      return IdentityOptions{};
    case proto::Stage::kCustom:
      return ToCustomOptions(stage);
    case proto::Stage::kFilter:
      return FilterOptions{"", stage.filter().predicate(), std::nullopt,
                           stage.filter().materialize()};
    case proto::Stage::kUnbatch:
      return UnbatchOptions{{stage.unbatch().field().begin(), stage.unbatch().field().end()}};
    case proto::Stage::kColorJitter:
      return ToOptions(stage.color_jitter());
    case proto::Stage::kAffine:
      return ToOptions(stage.affine());
    case proto::Stage::kAugMix:
      return ToOptions(stage.aug_mix());
    case proto::Stage::kAutoAugment:
      return ToOptions(stage.auto_augment());
    case proto::Stage::kLabelSmoothing:
      return augment::LabelSmoothingOptions{stage.label_smoothing().field(),
                                            stage.label_smoothing().smoothing()};
    case proto::Stage::kRandomErasing:
      return ToOptions(stage.random_erasing());
    case proto::Stage::kCutout:
      return augment::CutoutOptions{stage.cutout().field(), stage.cutout().size(),
                                    stage.cutout().probability(), stage.cutout().value()};
    default:
      if (auto color = ColorOptionsOf(stage)) return *std::move(color);
      return FieldOptionsOf(stage);  // nullopt: neither a map nor a cut
  }
}

}  // namespace

CustomOptions ToCustomOptions(const proto::Stage& stage) {
  const proto::Custom& custom = stage.custom();
  return {stage.name(), custom.op(), custom.version(), custom.options()};
}

std::vector<OpSpec> OpsFromPlan(const PlanMessage& plan) {
  std::vector<OpSpec> specs;
  bool batched = false;
  for (int i = 0; i < plan.pipeline.stage_size(); ++i) {
    const proto::Stage& stage = plan.pipeline.stage(i);
    // Behind the batch only what a stage that mixes wants done before it.
    if (MixesRows(stage) && NumClassesOf(stage) != 0) {
      specs.push_back({stage.name(), plan.Where(i),
                       augment::OneHotOptions{MixingOptionsOf(stage).label, NumClassesOf(stage)}});
    }
    if (KindOf(stage) == StageKind::kBatch) batched = true;
    if (batched) continue;
    std::optional<OpOptions> options = ToOptions(stage);
    if (!options) continue;
    if (auto* filter = std::get_if<FilterOptions>(&*options)) {
      filter->where = plan.Where(i, "predicate");
    }
    if (auto* vocabulary = std::get_if<augment::VocabularyOptions>(&*options)) {
      const auto loaded = plan.vocabularies.find(vocabulary->file);
      if (loaded != plan.vocabularies.end()) vocabulary->loaded = loaded->second;
    }
    specs.push_back({stage.name(), plan.Where(i), WithCarried(stage, *std::move(options))});
  }
  return specs;
}

}  // namespace millrace::pipeline
