#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/optimize/optimizer.h"

namespace millrace::pipeline {
namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// True if `field`, as it is before specs[begin], is read or refused by one of them or reaches the
// batch. Were a field that is refused not parsed, a plan would be wrong only without the rule.
bool IsUsedFrom(const std::vector<OpSpec>& specs, size_t begin, const std::string& field) {
  for (size_t i = begin; i < specs.size(); ++i) {
    const OpFields fields = FieldsOf(specs[i].options);
    if (fields.any || Contains(fields.reads, field) || Contains(fields.adds, field)) return true;
    if (Contains(fields.writes, field)) return false;
  }
  return true;
}

// The step that `spec` is behind others of a fused op; nullopt: it cannot be one.
std::optional<augment::PixelStep> AsStep(const OpSpec& spec) {
  return std::visit(
      [&](const auto& options) -> std::optional<augment::PixelStep> {
        if constexpr (std::is_constructible_v<augment::PixelOptions, decltype(options)>) {
          return augment::PixelStep{spec.stage, options};
        }
        return std::nullopt;
      },
      spec.options);
}

// A fused op that begins with `spec`, and may have no other part.
augment::FusedImageOptions BeginFused(const OpSpec& spec) {
  augment::FusedImageOptions fused;
  fused.first_stage = spec.stage;
  if (const auto* pair = std::get_if<DecodeRegionOptions>(&spec.options)) {
    if (pair->targets) return fused;  // a fused op has no targets
    fused.decode = pair->decode;
    std::visit([&](const auto& crop) { fused.first = crop; }, pair->crop);
  } else if (std::optional<augment::PixelStep> step = AsStep(spec)) {
    if (augment::CanFollow({}, step->options)) fused.steps.push_back(*std::move(step));
  } else {
    std::visit(
        [&](const auto& options) {
          if constexpr (std::is_constructible_v<augment::FirstOptions, decltype(options)>) {
            fused.first = options;
          }
        },
        spec.options);
  }
  return fused;
}

bool IsBegun(const augment::FusedImageOptions& fused) {
  return !std::holds_alternative<std::monostate>(fused.first) || !fused.steps.empty();
}

// True if its pixels are of a kind that a fused op takes; those of a decode are.
bool HasPixels(const Schema& before, const std::string& name) {
  const Field* const field = before.Find(name);
  return field != nullptr && (field->dtype == DType::kU8 || field->dtype == DType::kF32) &&
         field->shape.rank() == 3 && field->shape[2] != Shape::kUnknown;
}

// The longest fused op that begins at specs[begin], and behind which of them it ends.
size_t Fuse(const std::vector<OpSpec>& specs, const std::vector<Schema>& before, size_t begin,
            augment::FusedImageOptions& fused) {
  fused = BeginFused(specs[begin]);
  const OpFields fields = FieldsOf(specs[begin].options);
  if (!IsBegun(fused) || fields.writes.size() != 1) return begin + 1;
  fused.field = fields.writes[0];
  if (!fused.decode && !HasPixels(before[begin], fused.field)) return begin + 1;
  size_t end = begin + 1;
  if (end < specs.size()) {
    const auto* resize = std::get_if<augment::ResizeOptions>(&specs[end].options);
    if (resize != nullptr && resize->field == fused.field &&
        augment::CanBeResized(fused.first, *resize)) {
      fused.resize = *resize;
      ++end;
    }
  }
  for (; end < specs.size(); ++end) {
    std::optional<augment::PixelStep> step = AsStep(specs[end]);
    if (!step || FieldsOf(specs[end].options).writes[0] != fused.field) break;
    if (!augment::CanFollow(fused.steps, step->options)) break;
    fused.steps.push_back(*std::move(step));
  }
  return end;
}

// The crop that `spec` is, with targets or without; a resize is one too, of the whole image.
std::optional<augment::CropOptions> CropIn(const OpSpec& spec) {
  const auto as_crop = [](const auto& options) -> std::optional<augment::CropOptions> {
    if constexpr (std::is_constructible_v<augment::CropOptions, decltype(options)>) {
      return options;
    }
    return std::nullopt;
  };
  const auto* targets = std::get_if<augment::TargetsOptions>(&spec.options);
  return targets == nullptr ? std::visit(as_crop, spec.options)
                            : std::visit(as_crop, targets->geometry);
}

const std::string& FieldOf(const augment::CropOptions& crop) {
  return std::visit([](const auto& o) -> const std::string& { return o.field; }, crop);
}

bool IsResize(const augment::CropOptions& crop) {
  return std::holds_alternative<augment::ResizeOptions>(crop);
}

// True if they are one op even where the rule is off: how small the image is decoded follows from
// the second's options.
bool ArePixelsOfBoth(const augment::DecodeImageOptions& decode, const augment::CropOptions& crop) {
  return decode.dct_downscale &&
         (IsResize(crop) || std::holds_alternative<augment::RandomResizedCropOptions>(crop));
}

}  // namespace

void ProjectRule(std::vector<OpSpec>* specs, std::vector<std::string>* fired) {
  for (size_t i = 0; i < specs->size(); ++i) {
    std::vector<readers::FeatureSpec>* const features = MutableFeatures(&(*specs)[i].options);
    if (features == nullptr) continue;
    std::vector<readers::FeatureSpec> used;
    for (const readers::FeatureSpec& feature : *features) {
      if (IsUsedFrom(*specs, i + 1, feature.name)) used.push_back(feature);
    }
    if (used.empty()) continue;  // an op without features would not even look at the record
    for (const readers::FeatureSpec& feature : *features) {
      if (IsUsedFrom(*specs, i + 1, feature.name)) continue;
      fired->push_back(absl::StrCat("project: ", feature.key, " is not parsed, since ",
                                    feature.name, " is overwritten unread"));
    }
    *features = std::move(used);
  }
}

void DecodeRegionRule(bool enabled, std::vector<OpSpec>* specs, std::vector<std::string>* fired) {
  for (size_t i = 0; i + 1 < specs->size(); ++i) {
    const OpSpec& first = (*specs)[i];
    const OpSpec& second = (*specs)[i + 1];
    const auto* decode = std::get_if<augment::DecodeImageOptions>(&first.options);
    const std::optional<augment::CropOptions> crop = CropIn(second);
    if (decode == nullptr || !crop || FieldOf(*crop) != decode->output) continue;
    // A resize needs all pixels: two ops do as well.
    if (IsResize(*crop) && !decode->dct_downscale) continue;
    const bool smaller = ArePixelsOfBoth(*decode, *crop);
    if (decode->dct_downscale && !smaller) continue;  // decode_image by itself refuses that
    if (!enabled && !smaller) {
      (*specs)[i].options = DecodeToCropOptions{*decode, *crop, second.stage};
      continue;
    }
    fired->push_back(smaller ? absl::StrCat("dct_downscale: ", first.stage, " decodes what ",
                                            second.stage, " resizes at a part of its size")
                             : absl::StrCat("decode_region: ", first.stage, " decodes only what ",
                                            second.stage, " keeps"));
    // The crop replaces the decoded image, so nothing else can see it.
    OpSpec both{second.stage, second.where,
                DecodeRegionOptions{*decode, *crop, first.stage, first.where}};
    if (const auto* targets = std::get_if<augment::TargetsOptions>(&second.options)) {
      std::get<DecodeRegionOptions>(both.options).targets = *targets;
    }
    (*specs)[i] = std::move(both);
    specs->erase(specs->begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

void FuseImageRule(std::vector<OpSpec>* specs, std::vector<Schema>* before,
                   std::vector<std::string>* fired) {
  for (size_t i = 0; i < specs->size(); ++i) {
    augment::FusedImageOptions fused;
    const size_t end = Fuse(*specs, *before, i, fused);
    if (end == i + 1) continue;
    const auto first = static_cast<std::ptrdiff_t>(i + 1);
    const auto last = static_cast<std::ptrdiff_t>(end);
    std::vector<std::string> stages;
    for (size_t k = i; k < end; ++k) stages.push_back((*specs)[k].stage);
    fired->push_back(absl::StrCat("fuse_image: ", absl::StrJoin(stages, ", "), " run as one op on ",
                                  fused.field));
    (*specs)[i].options = std::move(fused);
    specs->erase(specs->begin() + first, specs->begin() + last);
    before->erase(before->begin() + first, before->begin() + last);
  }
}

void MapIntoBatchRule(const std::vector<OpSpec>& specs, PhysicalPlan* plan) {
  for (const Field& field : plan->batch_schema.fields()) {
    if (field.dtype == DType::kBytes || !field.shape.IsKnown()) continue;
    for (size_t i = specs.size(); i-- > 0;) {
      const OpFields fields = FieldsOf(specs[i].options);
      // An op that may write it may store it; what it leaves alone is copied.
      if (!fields.any && !Contains(fields.writes, field.name)) continue;
      plan->ops[i].binds.push_back(field.name);
      plan->rules.push_back(
          absl::StrCat("map_into_batch: ", field.name, " stored by ", specs[i].stage));
      break;
    }
  }
}

}  // namespace millrace::pipeline
