#include "readers/example/feature_spec.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/names/names.h"

namespace millrace::readers {

absl::StatusOr<std::vector<FeatureName>> ExpandKeys(const std::string& key,
                                                    const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> keys, internal::ExpandBraces(key));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> columns, internal::ExpandBraces(name));
  if (keys.size() != columns.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the key \"", key, "\" stands for ", keys.size(),
                                                   " features, but the name \"", name, "\" for ",
                                                   columns.size()));
  }
  std::vector<FeatureName> features;
  for (size_t i = 0; i < keys.size(); ++i) features.push_back({keys[i], columns[i]});
  return features;
}

}  // namespace millrace::readers

namespace millrace::readers::internal {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 31;  // of a feature; a record holds no more

absl::Status CheckSpec(std::string_view op, const FeatureSpec& spec) {
  const auto bad = [&](std::string_view text) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(op), ": feature '", spec.key, "': ", ToAbsl(text)));
  };
  if (spec.name.empty()) return bad("no column name");
  if (spec.per_step && !IsRagged(spec)) return bad("a list of steps is an array of numbers");
  if (spec.per_step && spec.has_default) return bad("a list of steps has no default");
  if (spec.allow_missing && !spec.per_step) return bad("only a list of steps may be missing");
  if (spec.dtype == DType::kBytes) return absl::OkStatus();
  const bool is_packed = spec.per_step && spec.dtype == DType::kU8;
  if (spec.dtype != DType::kI64 && spec.dtype != DType::kF32 && !is_packed) {
    return bad(absl::StrCat("dtype ", ToAbsl(Name(spec.dtype)),
                            "; a record holds bytes, int64 and float32"));
  }
  int64_t elements = 1;
  for (int i = 0; i < spec.shape.rank(); ++i) {
    const int64_t extent = spec.shape[i];
    if (i == 0 && extent == Shape::kUnknown) continue;
    if (extent < 0) return bad("only the first extent of its shape may be unknown");
    if (extent > 0 && elements > kMaxElements / extent) return bad("its shape is too large");
    elements *= extent;
  }
  if (elements == 0 && IsRagged(spec)) return bad("an unknown extent of values without elements");
  return absl::OkStatus();
}

}  // namespace

Shape ShapeOf(const FeatureSpec& spec, int64_t extent) {
  if (!IsRagged(spec)) return spec.shape;
  return Shape(spec.shape.extents().subspan(1)).Prepend(extent);
}

void FillDefault(const FeatureSpec& spec, void* out, int64_t elements) {
  if (spec.dtype == DType::kF32) {
    std::fill_n(static_cast<float*>(out), elements, spec.default_float);
  } else {
    std::fill_n(static_cast<int64_t*>(out), elements, spec.default_int);
  }
}

absl::Status CheckFeatures(std::string_view op, std::span<const FeatureSpec> features,
                           bool may_have_lists) {
  const auto bad = [&](auto&&... text) {
    return absl::InvalidArgumentError(absl::StrCat(ToAbsl(op), ": ", text...));
  };
  if (features.empty()) return bad("no feature is asked for");
  std::set<std::pair<bool, std::string_view>> keys;
  std::set<std::string_view> names;
  for (const FeatureSpec& spec : features) {
    MILLRACE_RETURN_IF_ERROR(CheckSpec(op, spec));
    if (spec.per_step && !may_have_lists) return bad("feature list '", spec.key, "'");
    if (!keys.emplace(spec.per_step, spec.key).second) {
      return bad("feature '", spec.key, "' is asked for twice");
    }
    if (!names.insert(spec.name).second) return bad("column '", spec.name, "' is given twice");
  }
  return absl::OkStatus();
}

absl::StatusOr<Schema> ResolveFeatures(std::string_view op, const std::string& field,
                                       std::span<const FeatureSpec> features, const Schema& input) {
  MILLRACE_RETURN_IF_ERROR(Annotate(input.CheckHas(field), op));
  if (input.Find(field)->dtype != DType::kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(op), ": field '", field, "' must be bytes"));
  }
  Schema output = input;
  output.Remove(field);
  for (const FeatureSpec& spec : features) {
    if (output.Find(spec.name) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(ToAbsl(op), ": field '", spec.name, "' exists already"));
    }
    output.Set(
        {spec.name, spec.dtype, spec.dtype == DType::kBytes ? Shape{Shape::kUnknown} : spec.shape});
  }
  return output;
}

void FailRecord(Run& run, int64_t row, absl::Status status) {
  RecordError error;
  error.position = static_cast<int64_t>(run.position(row));
  error.reason =
      absl::IsDataLoss(status) ? RecordErrorReason::kExample : RecordErrorReason::kFeature;
  SetRecordError(status, error);
  run.Fail(row, std::move(status));
}

}  // namespace millrace::readers::internal
