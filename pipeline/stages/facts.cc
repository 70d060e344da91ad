#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/overloaded.h"
#include "pipeline/stages/specs.h"

// What rules and texts have to know of an op's options: its fields, its name, whether it draws.

namespace millrace::pipeline {
namespace {

template <typename Options, typename... Ones>
inline constexpr bool kIsOneOf = (std::is_same_v<Options, Ones> || ...);

template <typename Options>
inline constexpr bool kIsRandom =
    kIsOneOf<Options, augment::FlipOptions, augment::RandomResizedCropOptions,
             augment::RandomCropOptions, augment::ColorOptions, augment::ColorJitterOptions,
             augment::AffineOptions, augment::RandomErasingOptions, augment::CutoutOptions,
             augment::AugMixOptions, augment::AutoAugmentOptions, augment::FusedImageOptions>;

OpFields InPlace(const std::string& field) { return {{field}, {field}, {}, false}; }

OpFields InPlace(const std::vector<std::string>& fields) { return {fields, fields, {}, false}; }

OpFields FieldsOfPad(const augment::PadTokensOptions& pad) {
  OpFields fields = InPlace(pad.field);
  for (const std::string& added : {pad.mask, pad.lengths}) {
    if (!added.empty()) fields.adds.push_back(added);
  }
  fields.writes.insert(fields.writes.end(), fields.adds.begin(), fields.adds.end());
  return fields;
}

// Fields that become one, which may have a name of theirs.
OpFields Consumed(const std::vector<std::string>& fields, const std::string& output) {
  OpFields consumed{fields, {output}, fields, false, {}};
  if (std::erase(consumed.removes, output) == 0) consumed.adds = {output};
  return consumed;
}

OpFields FieldsOfVocabulary(const augment::VocabularyOptions& vocabulary) {
  if (vocabulary.output.empty()) return InPlace(vocabulary.fields);
  return Consumed(vocabulary.fields, vocabulary.output);
}

OpFields FieldsOfStack(const augment::StackOptions& stack) {
  return Consumed(stack.fields, stack.output);
}

// Bytes in, something else out: for decode_image and decode_raw.
template <typename Options>
OpFields FieldsOfDecode(const Options& decode) {
  OpFields fields{{decode.field}, {decode.output}, {}, false};
  if (decode.output != decode.field) fields.removes.push_back(decode.field);
  return fields;
}

template <typename Options>
OpFields FieldsOfParse(const Options& parse) {
  OpFields fields{{parse.field}, {}, {parse.field}, false};
  for (const readers::FeatureSpec& feature : parse.features) fields.writes.push_back(feature.name);
  return fields;
}

OpFields FieldsOfCarry(const augment::TargetsOptions& carry) {
  std::vector<std::string> fields = {augment::FieldOf(carry.geometry)};
  if (carry.boxes) {
    fields.push_back(carry.boxes->field);
    fields.insert(fields.end(), carry.boxes->labels.begin(), carry.boxes->labels.end());
  }
  if (!carry.mask.empty()) fields.push_back(carry.mask);
  return {fields, fields, {}, false};
}

OpFields FieldsOfRegion(const DecodeRegionOptions& region) {
  OpFields fields = FieldsOfDecode(region.decode);
  if (!region.carry) return fields;
  // The image itself is among what is carried, but nobody gives it.
  const OpFields carried = FieldsOfCarry(*region.carry);
  fields.reads.insert(fields.reads.end(), carried.reads.begin() + 1, carried.reads.end());
  fields.writes.insert(fields.writes.end(), carried.writes.begin() + 1, carried.writes.end());
  return fields;
}

OpFields FieldsOfUnbatch(const UnbatchOptions& unbatch) {
  return {unbatch.fields, unbatch.fields, {}, unbatch.fields.empty()};
}

const char* NameOf(const augment::GeometryOptions& geometry) {
  return std::visit(
      Overloaded{[](const augment::RandomResizedCropOptions&) { return "random_resized_crop"; },
                 [](const augment::RandomCropOptions&) { return "random_crop"; },
                 [](const augment::CenterCropOptions&) { return "center_crop"; },
                 [](const augment::ResizeOptions&) { return "resize"; },
                 [](const augment::FlipOptions&) { return "flip"; },
                 [](const augment::PadOptions&) { return "pad"; }},
      geometry);
}

// "decode_image+random_resized_crop+flip+normalize"
std::string NameOfFused(const augment::FusedImageOptions& fused) {
  std::vector<std::string> names;
  if (fused.decode) names.push_back(OpName(*fused.decode));
  std::visit(
      Overloaded{[](std::monostate) {}, [&](const auto& first) { names.push_back(OpName(first)); }},
      fused.first);
  if (fused.resize) names.push_back(OpName(*fused.resize));
  for (const augment::PixelStep& step : fused.steps) {
    std::visit([&](const auto& options) { names.push_back(OpName(options)); }, step.options);
  }
  return absl::StrJoin(names, "+");
}

}  // namespace

OpFields FieldsOf(const OpOptions& options) {
  return std::visit(
      Overloaded{[](const readers::ParseExampleOptions& o) { return FieldsOfParse(o); },
                 [](const readers::ParseSequenceExampleOptions& o) { return FieldsOfParse(o); },
                 [](const readers::ParseFieldsOptions& o) { return FieldsOfParse(o); },
                 [](const augment::DecodeImageOptions& o) { return FieldsOfDecode(o); },
                 [](const readers::DecodeRawOptions& o) { return FieldsOfDecode(o); },
                 [](const DecodeRegionOptions& o) { return FieldsOfRegion(o); },
                 [](const DecodeToCropOptions& o) { return FieldsOfDecode(o.decode); },
                 [](const augment::PeekImageShapeOptions& o) {
                   return OpFields{{o.field}, {o.output}, {}, false};
                 },
                 [](const augment::FusedImageOptions& o) {
                   return o.decode ? FieldsOfDecode(*o.decode) : InPlace(o.field);
                 },
                 [](const IdentityOptions&) { return OpFields{}; },
                 [](const CustomOptions&) {
                   return OpFields{{}, {}, {}, true};
                 },
                 [](const FilterOptions& o) {
                   return OpFields{o.predicate->fields(), {}, {}, false};
                 },
                 [](const UnbatchOptions& o) { return FieldsOfUnbatch(o); },
                 [](const augment::TargetsOptions& o) { return FieldsOfCarry(o); },
                 [](const augment::PadTokensOptions& o) { return FieldsOfPad(o); },
                 [](const augment::VocabularyOptions& o) { return FieldsOfVocabulary(o); },
                 [](const augment::StackOptions& o) { return FieldsOfStack(o); },
                 [](const auto& o) {
                   // Many fields by one op, or one.
                   if constexpr (requires { o.fields; })
                     return InPlace(o.fields);
                   else
                     return InPlace(o.field);
                 }},
      options);
}

std::string OpName(const OpOptions& options) {
  return std::visit<std::string>(
      Overloaded{
          [](const readers::ParseExampleOptions&) { return "parse_example"; },
          [](const readers::ParseSequenceExampleOptions&) { return "parse_sequence_example"; },
          [](const readers::ParseFieldsOptions& o) { return readers::OpName(o.format).data(); },
          [](const augment::DecodeImageOptions&) { return "decode_image"; },
          [](const augment::TargetsOptions& o) { return NameOf(o.geometry); },
          [](const augment::RandomResizedCropOptions&) { return "random_resized_crop"; },
          [](const DecodeRegionOptions& o) {
            const std::string crop = std::visit([](const auto& c) { return OpName(c); }, o.crop);
            return absl::StrCat("decode_image+", crop);
          },
          [](const DecodeToCropOptions&) { return "decode_image"; },
          [](const augment::PeekImageShapeOptions&) { return "peek_image_shape"; },
          [](const augment::FusedImageOptions& o) { return NameOfFused(o); },
          [](const augment::ResizeOptions&) { return "resize"; },
          [](const augment::CenterCropOptions&) { return "center_crop"; },
          [](const augment::RandomCropOptions&) { return "random_crop"; },
          [](const augment::PadOptions&) { return "pad"; },
          [](const augment::TransposeOptions&) { return "transpose"; },
          [](const augment::PadChannelsOptions&) { return "pad_channels"; },
          [](const augment::ColorOptions& o) { return augment::NameOf(o.op).data(); },
          [](const augment::ColorJitterOptions&) { return "color_jitter"; },
          [](const augment::AffineOptions&) { return "affine"; },
          [](const augment::RandomErasingOptions&) { return "random_erasing"; },
          [](const augment::CutoutOptions&) { return "cutout"; },
          [](const augment::AugMixOptions&) { return "aug_mix"; },
          [](const augment::AutoAugmentOptions&) { return "auto_augment"; },
          [](const augment::LabelSmoothingOptions&) { return "label_smoothing"; },
          [](const augment::FlipOptions&) { return "flip"; },
          [](const augment::NormalizeOptions&) { return "normalize"; },
          [](const augment::CastOptions&) { return "cast"; },
          [](const augment::OneHotOptions&) { return "one_hot"; },
          [](const augment::VocabularyOptions&) { return "vocabulary"; },
          [](const augment::PadTokensOptions&) { return "pad_tokens"; },
          [](const augment::ScaleOptions&) { return "scale"; },
          [](const augment::LogOptions&) { return "log"; },
          [](const augment::BucketizeOptions&) { return "bucketize"; },
          [](const augment::HashOptions&) { return "hash"; },
          [](const augment::ClipOptions&) { return "clip"; },
          [](const augment::FillMissingOptions&) { return "fill_missing"; },
          [](const augment::StackOptions&) { return "stack"; },
          [](const readers::DecodeRawOptions&) { return "decode_raw"; },
          [](const IdentityOptions&) { return "identity"; },
          [](const CustomOptions& o) { return o.op.c_str(); },
          [](const FilterOptions&) { return "filter"; },
          [](const UnbatchOptions&) { return "unbatch"; }},
      options);
}

bool DrawsAtRandom(const OpOptions& options) {
  const auto either = [](const auto& variant) {
    return std::visit([](const auto& o) { return DrawsAtRandom(o); }, variant);
  };
  return std::visit(
      Overloaded{[&](const augment::TargetsOptions& o) { return either(o.geometry); },
                 [&](const DecodeRegionOptions& o) { return either(o.crop); },
                 [&](const DecodeToCropOptions& o) { return either(o.crop); },
                 [](const auto& o) { return kIsRandom<std::remove_cvref_t<decltype(o)>>; }},
      options);
}

std::vector<readers::FeatureSpec>* MutableFeatures(OpOptions* options) {
  if (auto* parse = std::get_if<readers::ParseExampleOptions>(options)) return &parse->features;
  if (auto* parse = std::get_if<readers::ParseSequenceExampleOptions>(options)) {
    return &parse->features;
  }
  if (auto* parse = std::get_if<readers::ParseFieldsOptions>(options)) return &parse->features;
  return nullptr;
}

}  // namespace millrace::pipeline
