#include "pipeline/stages/joined_ops.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/overloaded.h"
#include "pipeline/stages/fields.h"

namespace millrace::pipeline {
namespace {

// Any of some options as those of an op.
template <typename Variant>
OpOptions ToOp(const Variant& variant) {
  return std::visit([](const auto& options) -> OpOptions { return options; }, variant);
}

// An image with its targets.

std::string NameOfTargets(const OpOptions& options) {
  return OpName(ToOp(std::get<augment::TargetsOptions>(options).geometry));
}

OpOptions GeometryOfTargets(const OpOptions& options) {
  return ToOp(std::get<augment::TargetsOptions>(options).geometry);
}

// decode_image and a crop in one.

std::string NameOfRegion(const OpOptions& options) {
  const auto& region = std::get<DecodeRegionOptions>(options);
  return absl::StrCat("decode_image+", OpName(ToOp(region.crop)));
}

OpFields FieldsOfRegion(const DecodeRegionOptions& region) {
  OpFields fields = FieldsOfDecode(region.decode);
  if (!region.targets) return fields;
  // The first of these fields is the image, which the op itself makes.
  const OpFields targets = FieldsOfTargets(*region.targets);
  fields.reads.insert(fields.reads.end(), targets.reads.begin() + 1, targets.reads.end());
  fields.writes.insert(fields.writes.end(), targets.writes.begin() + 1, targets.writes.end());
  return fields;
}

OpOptions CropOfRegion(const OpOptions& options) {
  return ToOp(std::get<DecodeRegionOptions>(options).crop);
}

absl::StatusOr<std::unique_ptr<Op>> MakeRegion(const DecodeRegionOptions& region,
                                               const std::string& stage) {
  if (region.targets) return augment::MakeDecodeWithTargets(region.decode, *region.targets, stage);
  return augment::MakeDecodeCrop(region.decode, region.crop, stage);
}

// decode_image in front of a crop.

std::string NameOfToCrop(const OpOptions&) { return "decode_image"; }

OpFields FieldsOfToCrop(const DecodeToCropOptions& pair) { return FieldsOfDecode(pair.decode); }

OpOptions CropOfToCrop(const OpOptions& options) {
  return ToOp(std::get<DecodeToCropOptions>(options).crop);
}

absl::StatusOr<std::unique_ptr<Op>> MakeToCrop(const DecodeToCropOptions& pair) {
  return augment::MakeDecodeImageToCrop(pair.decode, pair.crop, pair.crop_stage);
}

// Several ops on one image.

// "decode_image+random_resized_crop+flip+normalize"
std::string NameOfFused(const OpOptions& options) {
  const auto& fused = std::get<augment::FusedImageOptions>(options);
  std::vector<std::string> names;
  if (fused.decode) names.push_back(OpName(*fused.decode));
  std::visit(
      Overloaded{[](std::monostate) {}, [&](const auto& first) { names.push_back(OpName(first)); }},
      fused.first);
  if (fused.resize) names.push_back(OpName(*fused.resize));
  for (const augment::PixelStep& step : fused.steps) names.push_back(OpName(ToOp(step.options)));
  return absl::StrJoin(names, "+");
}

OpFields FieldsOfFused(const augment::FusedImageOptions& fused) {
  if (fused.decode) return FieldsOfDecode(*fused.decode);
  return {{fused.field}, {fused.field}, {}, false};
}

constexpr OpRow kOpRows[] = {
    {.index = IndexOf<augment::TargetsOptions>(),
     .name = NameOfTargets,
     .fields = FieldsBy<augment::TargetsOptions, FieldsOfTargets>,
     .part = GeometryOfTargets,
     .make = MakeBy<augment::TargetsOptions, augment::MakeWithTargets>},
    {.index = IndexOf<DecodeRegionOptions>(),
     .name = NameOfRegion,
     .fields = FieldsBy<DecodeRegionOptions, FieldsOfRegion>,
     .part = CropOfRegion,
     .make = MakeBy<DecodeRegionOptions, MakeRegion>},
    {.index = IndexOf<DecodeToCropOptions>(),
     .name = NameOfToCrop,
     .fields = FieldsBy<DecodeToCropOptions, FieldsOfToCrop>,
     .part = CropOfToCrop,
     .make = MakeBy<DecodeToCropOptions, MakeToCrop>},
    {.index = IndexOf<augment::FusedImageOptions>(),
     .name = NameOfFused,
     .fields = FieldsBy<augment::FusedImageOptions, FieldsOfFused>,
     .draws = true,
     .make = MakeBy<augment::FusedImageOptions, augment::MakeFusedImage>},
};

}  // namespace

OpFields FieldsOfTargets(const augment::TargetsOptions& targets) {
  std::vector<std::string> fields = {augment::FieldOf(targets.geometry)};
  if (targets.boxes) {
    fields.push_back(targets.boxes->field);
    fields.insert(fields.end(), targets.boxes->labels.begin(), targets.boxes->labels.end());
  }
  if (!targets.mask.empty()) fields.push_back(targets.mask);
  return {fields, fields, {}, false};
}

const OpRow& JoinedRowOf(const OpOptions& options) {
  return *std::ranges::find(kOpRows, options.index(), &OpRow::index);
}

}  // namespace millrace::pipeline
