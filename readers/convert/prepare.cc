#include "readers/convert/prepare.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/convert/options.h"
#include "readers/convert/output.h"
#include "readers/image_header.h"

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

bool MayMiss(std::span<const ConvertFeature> declared, std::string_view name) {
  const auto found = std::ranges::find(declared, name, &ConvertFeature::name);
  return found != declared.end() && found->is_optional;
}

// The features that are taken of a sample. They keep the names that they were read with until the
// image was encoded anew, since these are the names that options speak of.
struct Taken {
  Sample sample;
  std::vector<std::string> new_names;  // of each
};

absl::StatusOr<Taken> Take(const ConvertOptions& options, std::span<const ConvertFeature> declared,
                           Sample sample) {
  Taken taken;
  if (options.features.empty()) {
    for (const SampleFeature& feature : sample) taken.new_names.push_back(feature.name);
    taken.sample = std::move(sample);
    return taken;
  }
  for (const auto& [name, new_name] : options.features) {
    if (const SampleFeature* const feature = Find(sample, name)) {
      taken.sample.push_back(*feature);
      taken.new_names.push_back(new_name);
    } else if (!MayMiss(declared, name)) {
      return NoSuch(name, sample);
    }
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

// The new name of a feature that is called like a kind of file, when it holds bytes of `format`.
std::string_view ExtensionOf(std::string_view name, std::string_view format) {
  if (name != "jpg" && name != "jpeg" && name != "png") return name;
  if (format != "jpeg") return format;
  return name == "png" ? "jpg" : name;
}

template <typename T>
void SetIfThere(Sample& sample, std::string_view name, T value) {
  for (SampleFeature& feature : sample) {
    if (feature.name == name) feature.values = std::vector<T>{value};
  }
}

// A feature that is called like a kind of file is called like another with other bytes, unless it
// was given a name.
absl::Status Rename(Taken& taken, std::string_view name, std::string_view format) {
  const std::string_view new_name = ExtensionOf(name, format);
  for (size_t i = 0; i < taken.new_names.size(); ++i) {
    if (new_name == name || taken.sample[i].name != name || taken.new_names[i] != name) continue;
    if (std::ranges::find(taken.new_names, new_name) != taken.new_names.end()) {
      return FeatureError(name, absl::StrCat("is '", ToAbsl(new_name),
                                             "' now that it is encoded anew, and there is another "
                                             "of that name; --features can call it otherwise"));
    }
    taken.new_names[i] = new_name;
  }
  return absl::OkStatus();
}

// Checks an image that stays as it is.
absl::Status CheckImage(const ConvertOptions& options, std::string_view encoded) {
  if (!options.check_images.has_value()) return absl::OkStatus();
  if (*options.check_images == ConvertCheck::kDecode) return options.codec->Check(encoded);
  absl::Status status = ReadImageHeader(encoded).status();
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  RecordError error;
  error.reason = RecordErrorReason::kImage;
  SetRecordError(status, error);
  return status;
}

// nullopt: it stays as it is, and is good.
absl::StatusOr<std::optional<RecodedImage>> RecodeOrCheck(const ConvertOptions& options,
                                                          std::string_view encoded) {
  std::optional<RecodedImage> image;
  if (Recodes(options)) {
    MILLRACE_ASSIGN_OR_RETURN(image, options.codec->Recode(encoded));
  }
  if (!image.has_value()) MILLRACE_RETURN_IF_ERROR(CheckImage(options, encoded));
  return image;
}

absl::Status LookAtImage(const ConvertOptions& options, Taken& taken) {
  Sample& sample = taken.sample;
  SampleFeature* const feature = FindImage(options, sample);
  const std::string name =
      options.image_feature.empty() ? std::string(kImageFeatures[0]) : options.image_feature;
  if (feature == nullptr) {
    return FeatureError(
        name, Recodes(options) ? "there is no image to encode anew" : "there is no image to check");
  }
  const std::string* const encoded = OneValue<std::string>(*feature);
  if (encoded == nullptr) return FeatureError(feature->name, "is not one value of bytes");
  absl::StatusOr<std::optional<RecodedImage>> looked = RecodeOrCheck(options, *encoded);
  if (!looked.ok()) return Annotate(looked.status(), absl::StrCat("feature '", feature->name, "'"));
  if (!looked->has_value()) return absl::OkStatus();
  RecodedImage& image = **looked;
  const std::string old_name = feature->name;
  SetIfThere(sample, old_name, std::move(image.encoded));
  SetIfThere(sample, "image/format", std::string(image.format));
  SetIfThere(sample, "image/height", image.height);
  SetIfThere(sample, "image/width", image.width);
  return Rename(taken, old_name, image.format);
}

}  // namespace

absl::Status PrepareSample(const ConvertOptions& options, std::span<const ConvertFeature> declared,
                           Sample& sample) {
  if (options.features.empty() && !LooksAtImages(options)) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(Taken taken, Take(options, declared, std::move(sample)));
  if (LooksAtImages(options)) MILLRACE_RETURN_IF_ERROR(LookAtImage(options, taken));
  sample = std::move(taken.sample);
  for (size_t i = 0; i < sample.size(); ++i) sample[i].name = std::move(taken.new_names[i]);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ConvertFeature>> PrepareSchema(const ConvertOptions& options,
                                                          std::vector<ConvertFeature> schema) {
  if (schema.empty() || options.features.empty()) return schema;
  std::vector<ConvertFeature> taken;
  for (const auto& [name, new_name] : options.features) {
    const auto found = std::ranges::find(schema, name, &ConvertFeature::name);
    if (found == schema.end()) return NoSuch(name, schema);
    taken.push_back(*found);
    taken.back().name = new_name;
  }
  return taken;
}

}  // namespace millrace::readers::internal
