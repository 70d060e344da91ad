#include "cli/commands/schema_text.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status.h"
#include "readers/convert_schema.h"

namespace millrace::cli {
namespace {

using readers::ContainerKind;
using readers::FeatureReport;

// A feature as a stage declares it.
struct Declared {
  const FeatureReport* report = nullptr;
  std::string_view dtype = {};  // of a plan
  std::string_view wrong = {};  // why no stage can parse it; empty: one can
  uint64_t num_values = 1;      // 0: as many as a record has
  uint64_t num_missing = 0;
};

// Whether all cells of a column are empty.
bool IsEmptyText(const FeatureReport& feature) {
  return feature.kind() == "none" && feature.widening == readers::Widening::kText;
}

std::string_view DtypeOf(const FeatureReport& feature) {
  if (feature.kind() == "bytes" || IsEmptyText(feature)) return "BYTES";
  return feature.kind() == "float" ? "FLOAT32" : "INT64";
}

std::string_view WhyNot(const FeatureReport& feature, uint64_t num_values) {
  if (IsEmptyText(feature)) return "";
  if (feature.kind() == "none") return "has no values";
  if (feature.kind() == "mixed") return "has values of several types";
  return feature.kind() == "bytes" && num_values != 1 ? "is a list of bytes" : "";
}

Declared Declare(const FeatureReport& feature, uint64_t num_records) {
  Declared declared{.report = &feature, .dtype = DtypeOf(feature)};
  const bool is_one_size = feature.num_values.min == feature.num_values.max;
  declared.num_values = is_one_size ? feature.num_values.min.value_or(1) : 0;
  declared.wrong = WhyNot(feature, declared.num_values);
  const uint64_t num_there = feature.num_bytes + feature.num_floats + feature.num_ints;
  declared.num_missing = num_records - std::min(num_records, num_there);
  return declared;
}

std::string_view DefaultOf(std::string_view dtype) {
  if (dtype == "BYTES") return "default_bytes: \"\"";
  return dtype == "INT64" ? "default_int: 0" : "default_float: 0";
}

std::string FeatureLine(const Declared& declared) {
  const std::string key = absl::CEscape(declared.report->key);
  if (!declared.wrong.empty()) {
    return absl::StrCat("    # \"", key, "\" ", ToAbsl(declared.wrong), "\n");
  }
  std::string line =
      absl::StrCat("    feature { key: \"", key, "\" dtype: ", ToAbsl(declared.dtype));
  if (declared.num_values == 0) absl::StrAppend(&line, " shape: -1");
  if (declared.num_values > 1) absl::StrAppend(&line, " shape: ", declared.num_values);
  // A list of any length is empty where it is missing.
  const bool needs_default = declared.num_missing > 0 && declared.num_values > 0;
  if (needs_default) absl::StrAppend(&line, " ", ToAbsl(DefaultOf(declared.dtype)));
  absl::StrAppend(&line, " }");
  if (declared.num_missing > 0) {
    absl::StrAppend(&line, "  # missing in ", declared.num_missing, " records");
  }
  return line + "\n";
}

std::string_view StageOf(const readers::ScanKind& kind) {
  if (kind.is_folder) return "";
  switch (kind.container.kind) {
    case ContainerKind::kTfRecord:
      return "parse_example";
    case ContainerKind::kCsv:
      return "parse_csv";
    case ContainerKind::kTar:
      return "parse_tar";
    case ContainerKind::kText:
      return kind.container.skips_blank ? "parse_json" : "";
    case ContainerKind::kFixedLength:
    case ContainerKind::kIdx:
      break;
  }
  return "";
}

DType DTypeOf(std::string_view dtype) {
  if (dtype == "BYTES") return DType::kBytes;
  return dtype == "INT64" ? DType::kI64 : DType::kF32;
}

// The features as `convert --schema` takes them.
std::string ConvertSchema(const std::vector<Declared>& features) {
  std::vector<readers::ConvertFeature> schema;
  for (const Declared& declared : features) {
    if (!declared.wrong.empty()) continue;
    schema.push_back({.name = declared.report->key,
                      .dtype = DTypeOf(declared.dtype),
                      .is_list = declared.num_values != 1,
                      .is_optional = declared.num_missing > 0});
  }
  return readers::ToString(schema);
}

std::string HeadText(const readers::InspectReport& report, std::string_view stage) {
  const bool all = std::ranges::all_of(report.shards, &readers::ShardReport::all_read);
  std::string text = absl::StrCat("# Guessed from ", all ? "all " : "the first ",
                                  report.total.num_records, " records; others may differ.\n");
  if (stage == "parse_csv" || stage == "parse_tar") {
    absl::StrAppend(&text, "# Digits are taken for numbers, but 007 for bytes.\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> SchemaText(const readers::InspectReport& report,
                                       const readers::ScanKind& kind) {
  const std::string_view stage = StageOf(kind);
  if (stage.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--schema: ", kind.is_folder ? "images" : readers::ToString(kind.container),
                     " have no features by name"));
  }
  std::vector<Declared> features;
  for (const FeatureReport& feature : report.features) {
    features.push_back(Declare(feature, report.total.num_records - report.total.num_not_examples));
  }
  if (features.empty()) return absl::InvalidArgumentError("--schema: no record has a feature");
  std::ranges::sort(features, {}, [](const Declared& d) { return d.report->place; });
  std::string text = absl::StrCat(HeadText(report, stage), "stage {\n  ", ToAbsl(stage), " {\n");
  const bool allow_nan = report.total.num_with_nan > 0;
  if (allow_nan) text += "    allow_nan: true\n";
  for (const Declared& declared : features) text += FeatureLine(declared);
  text += "  }\n}\n";
  if (stage == "parse_example") return text;
  return absl::StrCat(text, "# millrace records convert ", allow_nan ? "--allow-nan " : "",
                      "--schema '", ConvertSchema(features), "'\n");
}

}  // namespace millrace::cli
