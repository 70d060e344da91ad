#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "readers/convert_options_internal.h"
#include "readers/convert_output_internal.h"
#include "readers/convert_prepare_internal.h"

namespace millrace::readers::internal {
namespace {

SampleFeature* FindMutable(Sample& sample, std::string_view name) {
  for (SampleFeature& feature : sample) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

// There is no feature of that name among those of `list`.
template <typename List>
absl::Status NoSuch(const std::string& name, const List& list) {
  std::vector<std::string> names;
  for (const auto& feature : list) names.push_back(feature.name);
  return FeatureError(name, absl::StrCat("there is none", DidYouMean(name, names)));
}

// Those of `list` that are taken. Without `may_miss` each has to be there.
template <typename List>
absl::StatusOr<List> Select(const ConvertOptions& options, const List& list, bool may_miss) {
  List taken;
  for (const auto& [name, new_name] : options.features) {
    const auto found = std::ranges::find(list, name, [](const auto& f) { return f.name; });
    if (found == list.end()) {
      if (may_miss) continue;
      return NoSuch(name, list);
    }
    taken.push_back(*found);
    taken.back().name = new_name;
  }
  return taken;
}

constexpr std::array<std::string_view, 4> kImageFeatures = {"image/encoded", "jpg", "jpeg", "png"};

SampleFeature* FindImage(const ConvertOptions& options, Sample& sample) {
  if (!options.image_feature.empty()) return FindMutable(sample, options.image_feature);
  for (const std::string_view name : kImageFeatures) {
    if (SampleFeature* const feature = FindMutable(sample, name)) return feature;
  }
  return nullptr;
}

// What a feature that is called like a kind of file is called with other bytes.
std::string_view ExtensionOf(std::string_view name, std::string_view format) {
  if (name != "jpg" && name != "jpeg" && name != "png") return name;
  if (format != "jpeg") return format;
  return name == "png" ? "jpg" : name;
}

template <typename T>
void SetIfThere(Sample& sample, std::string_view name, T value) {
  if (SampleFeature* const feature = FindMutable(sample, name)) {
    feature->values = std::vector<T>{std::move(value)};
  }
}

absl::Status Recode(const ConvertOptions& options, Sample& sample) {
  SampleFeature* const feature = FindImage(options, sample);
  const std::string name =
      options.image_feature.empty() ? std::string(kImageFeatures[0]) : options.image_feature;
  if (feature == nullptr) return FeatureError(name, "there is no image to encode anew");
  const std::string* const encoded = OneValue<std::string>(*feature);
  if (encoded == nullptr) return FeatureError(feature->name, "is not one value of bytes");
  absl::StatusOr<std::optional<RecodedImage>> recoded = options.codec->Recode(*encoded);
  if (!recoded.ok())
    return Annotate(recoded.status(), absl::StrCat("feature '", feature->name, "'"));
  if (!recoded->has_value()) return absl::OkStatus();
  RecodedImage& image = **recoded;
  feature->name = ExtensionOf(feature->name, image.format);
  feature->values = std::vector<std::string>{std::move(image.encoded)};
  SetIfThere(sample, "image/format", std::string(image.format));
  SetIfThere(sample, "image/height", image.height);
  SetIfThere(sample, "image/width", image.width);
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareSample(const ConvertOptions& options, bool is_declared, Sample& sample) {
  if (Recodes(options)) {
    MILLRACE_RETURN_IF_ERROR(Recode(options, sample));
  }
  if (options.features.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(sample, Select(options, sample, is_declared));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ConvertFeature>> PrepareSchema(const ConvertOptions& options,
                                                          std::vector<ConvertFeature> schema) {
  if (schema.empty() || options.features.empty()) return schema;
  return Select(options, schema, /*may_miss=*/false);
}

}  // namespace millrace::readers::internal
