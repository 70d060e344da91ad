#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan/message.h"

// Results that are found once and kept beside the index: the outcome of filters that are
// materialized, and lengths. They come from a small plan of their own: the same sources, the
// filters as a cut, and the ops in front of them as far as they are needed (cut.cc).

namespace millrace::pipeline {
namespace {

using Names = std::set<std::string>;

// Text that two different strings never share, with any text behind it.
std::string Quoted(const std::string& text) { return absl::StrCat(text.size(), ":", text); }

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape.extents(), ","), "]");
}

std::string FeatureText(const readers::FeatureSpec& feature) {
  return absl::StrCat(
      Quoted(feature.key), Quoted(feature.name), static_cast<int>(feature.dtype),
      ShapeText(feature.shape),
      feature.has_default ? absl::StrCat("=", feature.default_int, ",",
                                         std::bit_cast<uint32_t>(feature.default_float), ",",
                                         Quoted(feature.default_bytes))
                          : "",
      feature.per_step ? " per step" : "", feature.allow_missing ? " or none" : "", ";");
}

// The text of an op of the record alone, without its name.
template <typename Parse>
std::string FeaturesText(const Parse& parse) {
  std::string text = parse.field == readers::kRecordField ? "" : "of " + Quoted(parse.field);
  for (const readers::FeatureSpec& feature : parse.features) text += FeatureText(feature);
  return text;
}

std::string FieldsText(const readers::ParseFieldsOptions& parse) {
  std::string text =
      absl::StrCat(ToAbsl(readers::OpName(parse.format)), " of ", Quoted(parse.field),
                   static_cast<int>(parse.delimiter), parse.allow_nan ? " nan" : "");
  for (const std::string& column : parse.columns) text += Quoted(column);
  text += ";";
  for (const readers::FeatureSpec& feature : parse.features) text += FeatureText(feature);
  return text + "\n";
}

// The text of all that decides about the outcome of a spec; names of stages do not.
std::string SpecText(const OpSpec& spec) {
  if (const auto* filter = std::get_if<FilterOptions>(&spec.options)) {
    return absl::StrCat("filter ", Quoted(filter->text), "\n");
  }
  if (const auto* raw = std::get_if<readers::DecodeRawOptions>(&spec.options)) {
    return absl::StrCat("decode_raw ", Quoted(raw->field), Quoted(raw->output),
                        static_cast<int>(raw->dtype), ShapeText(raw->shape), "\n");
  }
  if (const auto* parse = std::get_if<readers::ParseFieldsOptions>(&spec.options)) {
    return FieldsText(*parse);
  }
  if (const auto* parse = std::get_if<readers::ParseSequenceExampleOptions>(&spec.options)) {
    return absl::StrCat("parse_sequence_example ", FeaturesText(*parse), "\n");
  }
  const auto* parse = std::get_if<readers::ParseExampleOptions>(&spec.options);
  return absl::StrCat("parse_example ", parse == nullptr ? "" : FeaturesText(*parse), "\n");
}

// The specs up to the last filter, as plain cuts, without features that none of them reads.
std::vector<OpSpec> SpecsOfScan(const std::vector<OpSpec>& specs, size_t end) {
  std::vector<OpSpec> scanned(specs.begin(), specs.begin() + static_cast<std::ptrdiff_t>(end));
  Names read;
  for (OpSpec& spec : scanned) {
    const OpFields fields = FieldsOf(spec.options);
    read.insert(fields.reads.begin(), fields.reads.end());
    if (auto* filter = std::get_if<FilterOptions>(&spec.options)) filter->materialize = false;
  }
  for (OpSpec& spec : scanned) {
    std::vector<readers::FeatureSpec>* const features = MutableFeatures(&spec.options);
    if (features == nullptr) continue;
    std::erase_if(*features, [&](const readers::FeatureSpec& feature) {
      return !read.contains(feature.name);
    });
  }
  return scanned;
}

std::string KeyText(const PhysicalPlan& plan, const std::vector<OpSpec>& scanned) {
  std::string text = absl::StrCat("semantics ", plan.semantics_version, "\n");
  for (const SourceSpec& source : plan.sources) {
    absl::StrAppend(
        &text, "source ", static_cast<int>(source.kind), source.verify_crc ? "" : " raw", " ",
        source.count, source.container == readers::ContainerOptions() ? "" : " of ",
        source.container == readers::ContainerOptions() ? "" : readers::ToString(source.container),
        source.ignore_header_names ? " whose names do not count" : "",
        source.label ? absl::StrCat(" label ", *source.label) : "", "\n");
  }
  for (const OpSpec& spec : scanned) text += SpecText(spec);
  return text;
}

// True if SpecText says all about it: its outcome is one of the record alone.
bool IsOfTheRecord(const OpSpec& spec) {
  return spec.is_materialized() ||
         std::holds_alternative<readers::DecodeRawOptions>(spec.options) ||
         std::holds_alternative<readers::ParseFieldsOptions>(spec.options) ||
         std::holds_alternative<readers::ParseSequenceExampleOptions>(spec.options) ||
         std::holds_alternative<readers::ParseExampleOptions>(spec.options);
}

// The reason why lengths cannot be kept; "": they can.
std::string WhyNotKept(const PhysicalPlan& plan, const std::vector<OpSpec>& examined) {
  if (plan.zip.has_value()) return "and which records a zip puts side by side may differ";
  for (const SourceSpec& source : plan.sources) {
    if (source.kind == SourceSpec::Kind::kPush) return "and what is pushed comes once";
  }
  for (const OpSpec& spec : examined) {
    if (IsOfTheRecord(spec)) continue;
    return absl::StrCat(
        "so only parse_example and its like, decode_raw and materialized filters may make them; "
        "stage \"",
        spec.stage, "\" is ", OpName(spec.options));
  }
  return "";
}

}  // namespace

absl::Status FillLengths(const PlanMessage& message, int batch_stage,
                         const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                         const OpMaker& maker, PhysicalPlan* plan) {
  if (!plan->batch.keep_lengths) return absl::OkStatus();
  const CutPlan& cut = *plan->cut;
  std::vector<std::string> rules;
  const std::vector<OpSpec> examined = SpecsOfExamine(specs, before, cut, &rules);
  if (const std::string why = WhyNotKept(*plan, examined); !why.empty()) {
    return StageError(message.Where(batch_stage, "keep_lengths"), plan->batch.stage,
                      absl::StrCat("keep_lengths keeps what is found out about each record of the "
                                   "source, ",
                                   why, "; leave keep_lengths out"));
  }
  if (cut.extents_of.empty() && cut.value_of.empty()) return absl::OkStatus();
  auto scan = std::make_shared<PhysicalPlan>();
  scan->sources = plan->sources;
  scan->seed = plan->seed;
  scan->semantics_version = plan->semantics_version;
  scan->batch_schema = plan->batch_schema;
  scan->cut.emplace();
  scan->cut->extents_of = cut.extents_of;
  scan->cut->value_of = cut.value_of;
  MILLRACE_RETURN_IF_ERROR(FillExamine(specs, before, maker, scan.get()));
  std::string key = KeyText(*plan, examined);
  for (const std::string& field : cut.extents_of)
    absl::StrAppend(&key, "extents of ", Quoted(field));
  absl::StrAppend(&key, "value of ", Quoted(cut.value_of));
  plan->lengths = LengthsPlan{.scan = std::move(scan), .key = std::move(key)};
  return absl::OkStatus();
}

absl::Status FillSelect(const std::vector<OpSpec>& specs, const std::vector<Schema>& before,
                        const OpMaker& maker, PhysicalPlan* plan) {
  const auto last = std::ranges::find_if(specs.rbegin(), specs.rend(),
                                         [](const OpSpec& s) { return s.is_materialized(); });
  if (last == specs.rend()) return absl::OkStatus();
  const std::vector<OpSpec> scanned = SpecsOfScan(specs, static_cast<size_t>(specs.rend() - last));
  auto scan = std::make_shared<PhysicalPlan>();
  scan->sources = plan->sources;
  scan->seed = plan->seed;
  scan->semantics_version = plan->semantics_version;
  scan->cut.emplace();
  scan->cut->num_filters = static_cast<int>(
      std::ranges::count_if(scanned, [](const OpSpec& spec) { return spec.is_filter(); }));
  MILLRACE_RETURN_IF_ERROR(FillExamine(scanned, before, maker, scan.get()));
  std::ranges::move(scan->rules, std::back_inserter(plan->rules));
  scan->rules.clear();
  plan->select = SelectPlan{.scan = std::move(scan), .key = KeyText(*plan, scanned)};
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
