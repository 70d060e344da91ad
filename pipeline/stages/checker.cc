#include "pipeline/stages/checker.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/shape.h"
#include "pipeline/plan/limits.h"

namespace millrace::pipeline {

absl::Status OptionsChecker::Error(std::string_view field, const std::string& what,
                                   int index) const {
  return ErrorAt(at_.Where(stage_, field, index), absl::StrCat(ToAbsl(field), what));
}

absl::Status OptionsChecker::ErrorBelow(std::vector<FieldStep> steps,
                                        const std::string& what) const {
  steps.insert(steps.begin(), {"stage", stage_});
  return ErrorAt(at_.At(std::move(steps)), what);
}

absl::Status OptionsChecker::InRange(std::string_view field, uint64_t value, uint64_t low,
                                     uint64_t high, int index) const {
  if (value >= low && value <= high) return absl::OkStatus();
  return Error(field, absl::StrCat(" is ", value, " but must be in [", low, ", ", high, "]"),
               index);
}

absl::Status OptionsChecker::IsFinite(std::string_view field, double value, int index) const {
  return std::isfinite(value) ? absl::OkStatus() : Error(field, " must be finite", index);
}

absl::Status OptionsChecker::IsFraction(std::string_view field, float value) const {
  if (value >= 0 && value <= 1) return absl::OkStatus();
  return Error(field, absl::StrCat(" is ", value, " but must be in [0, 1]"));
}

absl::Status OptionsChecker::IsFill(float fill) const {
  if (fill >= 0 && fill <= 255) return absl::OkStatus();
  return Error("fill", absl::StrCat(" is ", fill, " but must be in [0, 255]"));
}

absl::Status OptionsChecker::IsAlpha(std::string_view field, float alpha) const {
  if (alpha >= 0.001f && alpha <= 1000) return absl::OkStatus();
  return Error(field, absl::StrCat(" is ", alpha, " but must be in [0.001, 1000]"));
}

absl::Status OptionsChecker::IsNumeric(std::string_view field, proto::DataType dtype) const {
  if (dtype != proto::DATA_TYPE_UNSPECIFIED && dtype != proto::BYTES) return absl::OkStatus();
  return Error(field,
               " must be a numeric type (UINT8, INT32, INT64, FLOAT16, BFLOAT16, "
               "FLOAT32, FLOAT64)");
}

absl::Status OptionsChecker::IsDelimiter(const std::string& delimiter, const char* what) const {
  if (delimiter.size() == 1 && delimiter.find_first_of("\"\r\n") == std::string::npos) {
    return absl::OkStatus();
  }
  return Error("delimiter", what);
}

absl::Status OptionsChecker::HasName(std::string_view field, const std::string& value) const {
  if (value.empty()) return Error(field, " must name a field");
  return absl::OkStatus();
}

absl::Status OptionsChecker::AreDistinct(
    const google::protobuf::RepeatedPtrField<std::string>& fields) const {
  std::set<std::string> seen;
  for (int i = 0; i < fields.size(); ++i) {
    if (fields[i].empty()) return Error("field", " must name a field", i);
    if (seen.insert(fields[i]).second) continue;
    return Error("field", absl::StrCat(" \"", fields[i], "\" is there twice"), i);
  }
  return absl::OkStatus();
}

absl::Status OptionsChecker::AreFields(
    const google::protobuf::RepeatedPtrField<std::string>& fields) const {
  if (fields.empty()) return Error("field", ": none given; name those that are changed");
  return AreDistinct(fields);
}

absl::Status OptionsChecker::Size(const std::string& field, uint32_t height, uint32_t width) const {
  MILLRACE_RETURN_IF_ERROR(HasName("field", field));
  MILLRACE_RETURN_IF_ERROR(InRange("height", height, 1, kMaxExtent));
  return InRange("width", width, 1, kMaxExtent);
}

absl::Status OptionsChecker::Interpolation(std::string_view field, const std::string& method,
                                           bool antialias) const {
  MILLRACE_RETURN_IF_ERROR(IsOneOf(field, kResizeMethods, method));
  if (!antialias || method == "bilinear" || method == "bicubic") return absl::OkStatus();
  return Error("antialias",
               absl::StrCat(" is of ", ToAbsl(field), "s \"bilinear\" and \"bicubic\" only"));
}

std::string WhyNotShape(const google::protobuf::RepeatedField<int64_t>& shape) {
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

}  // namespace millrace::pipeline
