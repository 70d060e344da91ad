#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "readers/convert_schema.h"

namespace millrace::readers {
namespace {

bool TakeEnd(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

absl::StatusOr<ConvertFeature> ParseFeature(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("schema: '", ToAbsl(text), "': ", ToAbsl(why)));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("is not NAME:DTYPE");
  ConvertFeature feature;
  feature.name = std::string(text.substr(0, colon));
  if (feature.name.empty()) return bad("has no name");
  std::string_view dtype = text.substr(colon + 1);
  feature.is_optional = TakeEnd(dtype, "?");
  feature.is_list = TakeEnd(dtype, "[]");
  if (dtype == "bytes") {
    feature.dtype = DType::kBytes;
  } else if (dtype == "int64") {
    feature.dtype = DType::kI64;
  } else if (dtype == "float32" || dtype == "float") {
    feature.dtype = DType::kF32;
  } else {
    return bad("its dtype must be bytes, int64 or float32");
  }
  if (feature.is_list && feature.dtype == DType::kBytes) return bad("a list of bytes");
  return feature;
}

}  // namespace

absl::StatusOr<std::vector<ConvertFeature>> ParseConvertSchema(std::string_view text) {
  std::vector<ConvertFeature> schema;
  std::set<std::string> names;
  for (const auto part : absl::StrSplit(ToAbsl(text), ',')) {
    MILLRACE_ASSIGN_OR_RETURN(ConvertFeature feature, ParseFeature({part.data(), part.size()}));
    if (!names.insert(feature.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("schema: '", feature.name, "' is there twice"));
    }
    schema.push_back(std::move(feature));
  }
  return schema;
}

std::string ToString(std::span<const ConvertFeature> schema) {
  std::string text;
  for (const ConvertFeature& feature : schema) {
    absl::StrAppend(&text, text.empty() ? "" : ",", feature.name, ":", ToAbsl(Name(feature.dtype)),
                    feature.is_list ? "[]" : "", feature.is_optional ? "?" : "");
  }
  return text;
}

}  // namespace millrace::readers
