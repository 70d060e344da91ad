#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/image_ops.h"
#include "base/nearest_name.h"
#include "base/shape.h"
#include "base/status.h"
#include "pipeline/plan/check.h"
#include "pipeline/stages/carry.h"

// The range of every option of the maps.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxDepth = 1 << 24;  // of one_hot
constexpr uint64_t kMaxScans = 1 << 16;
constexpr uint64_t kMaxDecodeBytes = uint64_t{1} << 40;

// Checks one map; each method names the field when it fails.
class MapChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  template <typename Message>
  absl::Status Parse(const Message& parse) const;
  absl::Status ParseSequence(const proto::ParseSequenceExample& parse) const;
  // The same for values that are one each.
  template <typename Message>
  absl::Status ParseScalars(const Message& parse) const;
  absl::Status ParseCsv(const proto::ParseCsv& parse) const;
  absl::Status Decode(const proto::DecodeImage& decode) const;
  absl::Status Peek(const proto::PeekImageShape& peek) const;
  absl::Status DecodeRaw(const proto::DecodeRaw& decode) const;
  absl::Status Crop(const proto::RandomResizedCrop& crop) const;
  absl::Status Normalize(const proto::Normalize& normalize) const;
  absl::Status Cast(const proto::Cast& cast) const;
  absl::Status OneHot(const proto::OneHot& one_hot) const;
  absl::Status Custom(const proto::Custom& custom) const;

 private:
  // Two numbers, 0 < first <= second (<= high).
  template <typename Numbers>
  absl::Status IsRange(std::string_view field, const Numbers& numbers, float high) const {
    if (numbers.size() == 2 && numbers[0] > 0 && numbers[0] <= numbers[1] && numbers[1] <= high) {
      return absl::OkStatus();
    }
    return Error(field, absl::StrCat(" must be two numbers, 0 < low <= high",
                                     high < 2 ? " <= 1" : ", finite"));
  }

  absl::Status IsNumeric(std::string_view field, proto::DataType dtype) const {
    if (dtype != proto::DATA_TYPE_UNSPECIFIED && dtype != proto::BYTES) return absl::OkStatus();
    return Error(field,
                 " must be a numeric type (UINT8, INT32, INT64, FLOAT16, BFLOAT16, "
                 "FLOAT32, FLOAT64)");
  }

  // Of "feature", or of another `list` of such messages.
  absl::Status FeatureError(int i, std::string_view field, const std::string& what,
                            std::string_view list = "feature") const {
    return ErrorAt({{op_name()}, {list, i}, {field}}, what);
  }
  // Keys are there once in `list`, and names in all lists; `names` are those of the lists before.
  template <typename Features>
  absl::Status AreDistinct(std::string_view list, const Features& features,
                           std::set<std::string>* names) const;
  // Key and name of `list`[i] can be those of a feature of `record`.
  template <typename Message>
  absl::Status HasKey(std::string_view list, int i, const Message& feature,
                      const std::string& record) const;
  absl::Status FeatureList(int i, const proto::FeatureList& list, const std::string& record) const;
  // `record`: the field that is parsed.
  absl::Status Feature(int i, const proto::Feature& feature, const std::string& record) const;
  absl::Status FeatureShape(int i, const proto::Feature& feature) const;
  absl::Status FeatureDefault(int i, const proto::Feature& feature) const;
};

// What is wrong with extents of which only the first may be -1, or "".
template <typename Extents>
std::string WhyNotShape(const Extents& shape) {
  if (shape.size() >= Shape::kMaxRank) {
    return absl::StrCat("shape has more than ", Shape::kMaxRank - 1, " extents");
  }
  uint64_t elements = 1;
  for (int k = 0; k < shape.size(); ++k) {
    const int64_t extent = shape[k];
    if (extent == Shape::kUnknown) {
      if (k == 0) continue;
      return "only the first extent of shape may be -1";
    }
    if (extent <= 0) return "extents of shape must be > 0, the first may be -1";
    if (static_cast<uint64_t>(extent) > kMaxElements / elements) {
      return absl::StrCat("shape has over ", kMaxElements, " elements");
    }
    elements *= static_cast<uint64_t>(extent);
  }
  return "";
}

template <typename Features>
absl::Status MapChecker::AreDistinct(std::string_view list, const Features& features,
                                     std::set<std::string>* names) const {
  std::set<std::string> keys;
  for (int i = 0; i < features.size(); ++i) {
    if (!keys.insert(features[i].key()).second) {
      return FeatureError(i, "key",
                          absl::StrCat("feature \"", features[i].key(), "\" is there twice"), list);
    }
    if (!names->insert(features[i].name()).second) {
      return FeatureError(
          i, "name", absl::StrCat("two features are named \"", features[i].name(), "\""), list);
    }
  }
  return absl::OkStatus();
}

template <typename Message>
absl::Status MapChecker::Parse(const Message& parse) const {
  if (parse.feature().empty()) return Error("feature", ": none given; name those that are used");
  for (int i = 0; i < parse.feature_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(Feature(i, parse.feature(i), parse.field()));
  }
  std::set<std::string> names;
  return AreDistinct("feature", parse.feature(), &names);
}

absl::Status MapChecker::ParseSequence(const proto::ParseSequenceExample& parse) const {
  if (parse.feature().empty() && parse.feature_list().empty()) {
    return Error("feature_list", ": none given, and no feature; name those that are used");
  }
  for (int i = 0; i < parse.feature_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(Feature(i, parse.feature(i), parse.field()));
  }
  for (int i = 0; i < parse.feature_list_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(FeatureList(i, parse.feature_list(i), parse.field()));
  }
  std::set<std::string> names;
  MILLRACE_RETURN_IF_ERROR(AreDistinct("feature", parse.feature(), &names));
  return AreDistinct("feature_list", parse.feature_list(), &names);
}

template <typename Message>
absl::Status MapChecker::ParseScalars(const Message& parse) const {
  MILLRACE_RETURN_IF_ERROR(Parse(parse));
  for (int i = 0; i < parse.feature_size(); ++i) {
    if (parse.feature(i).shape().empty()) continue;
    return FeatureError(i, "shape",
                        absl::StrCat("a feature of ", op_name(), " is one value; it has no shape"));
  }
  return absl::OkStatus();
}

absl::Status MapChecker::ParseCsv(const proto::ParseCsv& parse) const {
  MILLRACE_RETURN_IF_ERROR(ParseScalars(parse));
  const std::string& delimiter = parse.delimiter();
  if (delimiter.size() != 1 || delimiter.find_first_of("\"\r\n") != std::string::npos) {
    return Error("delimiter", " must be one byte, and no quote or line end");
  }
  std::vector<std::string> columns;
  for (int i = 0; i < parse.column_size(); ++i) {
    if (std::ranges::find(columns, parse.column(i)) != columns.end()) {
      return Error("column", absl::StrCat(" \"", parse.column(i), "\" is there twice"), i);
    }
    columns.push_back(parse.column(i));
  }
  for (int i = 0; i < parse.feature_size(); ++i) {
    const std::string& key = parse.feature(i).key();
    if (std::ranges::find(columns, key) != columns.end()) continue;
    return FeatureError(i, "key",
                        absl::StrCat("there is no column \"", key, "\"", DidYouMean(key, columns)));
  }
  return absl::OkStatus();
}

template <typename Message>
absl::Status MapChecker::HasKey(std::string_view list, int i, const Message& feature,
                                const std::string& record) const {
  if (feature.key().empty()) return FeatureError(i, "key", "a feature needs a key", list);
  if (feature.name() != record) return absl::OkStatus();
  return FeatureError(i, "name",
                      absl::StrCat("the name \"", record, "\" is taken by the whole record"), list);
}

absl::Status MapChecker::Feature(int i, const proto::Feature& feature,
                                 const std::string& record) const {
  MILLRACE_RETURN_IF_ERROR(HasKey("feature", i, feature, record));
  const proto::DataType dtype = feature.dtype();
  if (dtype != proto::BYTES && dtype != proto::INT64 && dtype != proto::FLOAT32) {
    return FeatureError(i, "dtype",
                        absl::StrCat("dtype of feature \"", feature.key(),
                                     "\" must be BYTES, INT64 or FLOAT32, the kinds an Example "
                                     "has; cast converts"));
  }
  MILLRACE_RETURN_IF_ERROR(FeatureShape(i, feature));
  return FeatureDefault(i, feature);
}

absl::Status MapChecker::FeatureList(int i, const proto::FeatureList& list,
                                     const std::string& record) const {
  MILLRACE_RETURN_IF_ERROR(HasKey("feature_list", i, list, record));
  const proto::DataType dtype = list.dtype();
  if (dtype != proto::INT64 && dtype != proto::FLOAT32 && dtype != proto::UINT8) {
    return FeatureError(i, "dtype",
                        absl::StrCat("dtype of feature list \"", list.key(),
                                     "\" must be INT64, FLOAT32, or UINT8 (one string of so many "
                                     "bytes as shape says per step)"),
                        "feature_list");
  }
  std::string why = WhyNotShape(list.shape());
  if (list.shape_size() > Shape::kMaxRank - 2) {
    why = absl::StrCat("a step has at most ", Shape::kMaxRank - 2, " extents");
  } else if (!list.shape().empty() && list.shape(0) < 0) {
    why = "all steps are of one shape, whose extents are > 0";
  }
  return why.empty() ? absl::OkStatus() : FeatureError(i, "shape", why, "feature_list");
}

absl::Status MapChecker::FeatureShape(int i, const proto::Feature& feature) const {
  if (feature.dtype() == proto::BYTES && !feature.shape().empty()) {
    return FeatureError(i, "shape", "a BYTES feature has no shape; it is one string");
  }
  const std::string why = WhyNotShape(feature.shape());
  return why.empty() ? absl::OkStatus() : FeatureError(i, "shape", why);
}

absl::Status MapChecker::FeatureDefault(int i, const proto::Feature& feature) const {
  proto::DataType dtype = feature.dtype();
  std::string field;
  switch (feature.default_case()) {
    case proto::Feature::kDefaultInt:
      dtype = proto::INT64;
      field = "default_int";
      break;
    case proto::Feature::kDefaultFloat:
      dtype = proto::FLOAT32;
      field = "default_float";
      break;
    case proto::Feature::kDefaultBytes:
      dtype = proto::BYTES;
      field = "default_bytes";
      break;
    case proto::Feature::DEFAULT_NOT_SET:
      break;
  }
  if (dtype == feature.dtype()) return absl::OkStatus();
  return FeatureError(i, field,
                      absl::StrCat(field, " does not fit the feature's dtype ",
                                   proto::DataType_Name(feature.dtype())));
}

absl::Status MapChecker::Decode(const proto::DecodeImage& decode) const {
  if (decode.channels() != 1 && decode.channels() != 3) {
    return Error("channels", absl::StrCat(" is ", decode.channels(), " but must be 1 or 3"));
  }
  if (decode.verify_full() && decode.allow_truncated()) {
    return Error("verify_full", " and allow_truncated do not go together");
  }
  MILLRACE_RETURN_IF_ERROR(InRange("max_scans", decode.max_scans(), 1, kMaxScans));
  MILLRACE_RETURN_IF_ERROR(
      InRange("max_memory_bytes", decode.max_memory_bytes(), 1, kMaxDecodeBytes));
  return InRange("max_pixels", decode.max_pixels(), 1, kMaxElements);
}

absl::Status MapChecker::Peek(const proto::PeekImageShape& peek) const {
  if (peek.output() != peek.field()) return absl::OkStatus();
  return Error("output",
               absl::StrCat(" is \"", peek.output(), "\", the encoded field, which stays"));
}

absl::Status MapChecker::Crop(const proto::RandomResizedCrop& crop) const {
  MILLRACE_RETURN_IF_ERROR(Size(crop.field(), crop.height(), crop.width()));
  MILLRACE_RETURN_IF_ERROR(IsRange("area", crop.area(), 1));
  MILLRACE_RETURN_IF_ERROR(IsRange("aspect", crop.aspect(), std::numeric_limits<float>::max()));
  MILLRACE_RETURN_IF_ERROR(Interpolation("interpolation", crop.interpolation(), crop.antialias()));
  return InRange("max_attempts", crop.max_attempts(), 1, augment::kMaxCropAttempts);
}

absl::Status MapChecker::Normalize(const proto::Normalize& normalize) const {
  if (normalize.mean().empty()) return Error("mean", " is empty; give one number per channel");
  if (normalize.mean_size() != normalize.stddev_size()) {
    return Error("stddev", absl::StrCat(" has ", normalize.stddev_size(), " numbers but mean has ",
                                        normalize.mean_size()));
  }
  for (int i = 0; i < normalize.mean_size(); ++i) {
    if (!std::isfinite(normalize.mean(i))) return Error("mean", " must be finite", i);
    if (!(normalize.stddev(i) > 0) || !std::isfinite(normalize.stddev(i))) {
      return Error("stddev", " must be > 0 and finite", i);
    }
  }
  return absl::OkStatus();
}

absl::Status MapChecker::Cast(const proto::Cast& cast) const {
  MILLRACE_RETURN_IF_ERROR(HasName("field", cast.field()));
  MILLRACE_RETURN_IF_ERROR(IsNumeric("dtype", cast.dtype()));
  if (!std::isfinite(cast.scale())) return Error("scale", " must be finite");
  return absl::OkStatus();
}

absl::Status MapChecker::OneHot(const proto::OneHot& one_hot) const {
  return InRange("depth", one_hot.depth(), 1, kMaxDepth);
}

absl::Status MapChecker::DecodeRaw(const proto::DecodeRaw& decode) const {
  MILLRACE_RETURN_IF_ERROR(IsNumeric("dtype", decode.dtype()));
  const std::string why = WhyNotShape(decode.shape());
  return why.empty() ? absl::OkStatus() : ErrorAt({{"decode_raw"}, {"shape"}}, why);
}

absl::Status MapChecker::Custom(const proto::Custom& custom) const {
  return custom.op().empty() ? Error("op", " is empty; name the op as it is registered")
                             : absl::OkStatus();
}

}  // namespace

absl::Status CheckMapOptions(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  MILLRACE_RETURN_IF_ERROR(CheckCarried(at, i));
  const MapChecker check(at, i);
  switch (stage.op_case()) {
    case proto::Stage::kParseExample:
      return check.Parse(stage.parse_example());
    case proto::Stage::kParseSequenceExample:
      return check.ParseSequence(stage.parse_sequence_example());
    case proto::Stage::kParseCsv:
      return check.ParseCsv(stage.parse_csv());
    case proto::Stage::kParseJson:
      return check.Parse(stage.parse_json());
    case proto::Stage::kParseTar:
      return check.ParseScalars(stage.parse_tar());
    case proto::Stage::kDecodeImage:
      return check.Decode(stage.decode_image());
    case proto::Stage::kPeekImageShape:
      return check.Peek(stage.peek_image_shape());
    case proto::Stage::kDecodeRaw:
      return check.DecodeRaw(stage.decode_raw());
    case proto::Stage::kRandomResizedCrop:
      return check.Crop(stage.random_resized_crop());
    case proto::Stage::kNormalize:
      return check.Normalize(stage.normalize());
    case proto::Stage::kCast:
      return check.Cast(stage.cast());
    case proto::Stage::kOneHot:
      return check.OneHot(stage.one_hot());
    case proto::Stage::kCustom:
      return check.Custom(stage.custom());
    default:
      return CheckImageOptions(at, i);
  }
}

}  // namespace millrace::pipeline
