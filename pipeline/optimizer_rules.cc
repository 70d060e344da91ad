#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/optimizer_internal.h"

namespace millrace::pipeline {
namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// True when `field`, as it is before specs[begin], is read by one of them or reaches the batch.
bool IsUsedFrom(const std::vector<OpSpec>& specs, size_t begin, const std::string& field) {
  for (size_t i = begin; i < specs.size(); ++i) {
    const OpFields fields = FieldsOf(specs[i].options);
    if (fields.any || Contains(fields.reads, field)) return true;
    if (Contains(fields.writes, field)) return false;
  }
  return true;
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
    const auto* crop = std::get_if<augment::RandomResizedCropOptions>(&second.options);
    if (decode == nullptr || crop == nullptr || crop->field != decode->output) continue;
    if (!enabled && !decode->dct_downscale) {
      (*specs)[i].options = DecodeToCropOptions{*decode, *crop, second.stage};
      continue;
    }
    fired->push_back(absl::StrCat("decode_region: ", first.stage, " decodes only what ",
                                  second.stage, " keeps"));
    // The crop replaces the decoded image, so nothing else can see it.
    OpSpec both{second.stage, second.where, DecodeRegionOptions{*decode, *crop}};
    (*specs)[i] = std::move(both);
    specs->erase(specs->begin() + static_cast<std::ptrdiff_t>(i) + 1);
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
