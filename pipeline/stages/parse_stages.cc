#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "pipeline/stages/convert.h"
#include "pipeline/stages/feature_keys.h"
#include "pipeline/stages/row.h"

// Maps that parse records.

namespace millrace::pipeline {
namespace {

using proto::Stage;

template <typename Parse>
void FillParse(Parse* parse) {
  Default(parse->mutable_field(), "record");
  for (proto::Feature& feature : *parse->mutable_feature()) {
    Default(feature.mutable_name(), feature.key().c_str());
  }
}

void FillSequence(proto::ParseSequenceExample* parse) {
  FillParse(parse);
  for (proto::FeatureList& list : *parse->mutable_feature_list()) {
    Default(list.mutable_name(), list.key().c_str());
  }
}

void FillCsv(proto::ParseCsv* parse) {
  FillParse(parse);
  Default(parse->mutable_delimiter(), ",");
}

// Checks the features of one stage.
class FeatureChecker {
 public:
  // `record`: the field that is parsed. Borrows both.
  FeatureChecker(const OptionsChecker& check, const std::string& record)
      : check_(check), record_(record) {}

  absl::Status Feature(int i, const proto::Feature& feature) const;
  absl::Status FeatureList(int i, const proto::FeatureList& list) const;
  // Keys are there once in `list`, and names in all lists; `names` are those of the lists before.
  template <typename Features>
  absl::Status AreDistinct(std::string_view list, const Features& features,
                           std::set<std::string>* names) const;
  // The error of a field of `list`[i].
  absl::Status Error(int i, std::string_view field, const std::string& what,
                     std::string_view list = "feature") const {
    return check_.ErrorBelow({{check_.op_name()}, {list, i}, {field}}, what);
  }

 private:
  // Key and name of `list`[i] can be those of a feature of the record.
  template <typename Message>
  absl::Status HasKey(std::string_view list, int i, const Message& feature) const;
  absl::Status HasShape(int i, const proto::Feature& feature) const;
  absl::Status HasDefault(int i, const proto::Feature& feature) const;

  const OptionsChecker& check_;
  const std::string& record_;
};

template <typename Features>
absl::Status FeatureChecker::AreDistinct(std::string_view list, const Features& features,
                                         std::set<std::string>* names) const {
  std::set<std::string> keys;
  for (int i = 0; i < features.size(); ++i) {
    const auto expanded = readers::ExpandKeys(features[i].key(), features[i].name());
    MILLRACE_RETURN_IF_ERROR(expanded.status());
    for (const readers::FeatureName& feature : *expanded) {
      if (!keys.insert(feature.key).second) {
        return Error(i, "key", absl::StrCat("feature \"", feature.key, "\" is there twice"), list);
      }
      if (!names->insert(feature.column).second) {
        return Error(i, "name", absl::StrCat("two features are named \"", feature.column, "\""),
                     list);
      }
    }
  }
  return absl::OkStatus();
}

template <typename Message>
absl::Status FeatureChecker::HasKey(std::string_view list, int i, const Message& feature) const {
  const auto names = readers::ExpandKeys(feature.key(), feature.name());
  if (!names.ok()) return Error(i, "key", std::string(names.status().message()), list);
  for (const readers::FeatureName& name : *names) {
    if (name.key.empty()) return Error(i, "key", "a feature needs a key", list);
    if (name.column != record_) continue;
    return Error(i, "name", absl::StrCat("the name \"", record_, "\" is taken by the whole record"),
                 list);
  }
  return absl::OkStatus();
}

absl::Status FeatureChecker::Feature(int i, const proto::Feature& feature) const {
  MILLRACE_RETURN_IF_ERROR(HasKey("feature", i, feature));
  const proto::DataType dtype = feature.dtype();
  if (dtype != proto::BYTES && dtype != proto::INT64 && dtype != proto::FLOAT32) {
    return Error(i, "dtype",
                 absl::StrCat("dtype of feature \"", feature.key(),
                              "\" must be BYTES, INT64 or FLOAT32, the kinds an Example "
                              "has; cast converts"));
  }
  MILLRACE_RETURN_IF_ERROR(HasShape(i, feature));
  return HasDefault(i, feature);
}

absl::Status FeatureChecker::FeatureList(int i, const proto::FeatureList& list) const {
  MILLRACE_RETURN_IF_ERROR(HasKey("feature_list", i, list));
  const proto::DataType dtype = list.dtype();
  if (dtype != proto::INT64 && dtype != proto::FLOAT32 && dtype != proto::UINT8) {
    return Error(i, "dtype",
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
  return why.empty() ? absl::OkStatus() : Error(i, "shape", why, "feature_list");
}

absl::Status FeatureChecker::HasShape(int i, const proto::Feature& feature) const {
  if (feature.dtype() == proto::BYTES && !feature.shape().empty()) {
    return Error(i, "shape", "a BYTES feature has no shape; it is one string");
  }
  const std::string why = WhyNotShape(feature.shape());
  return why.empty() ? absl::OkStatus() : Error(i, "shape", why);
}

absl::Status FeatureChecker::HasDefault(int i, const proto::Feature& feature) const {
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
  return Error(i, field,
               absl::StrCat(field, " does not fit the feature's dtype ",
                            proto::DataType_Name(feature.dtype())));
}

template <typename Parse>
absl::Status CheckParse(const OptionsChecker& check, const Parse& parse) {
  if (parse.feature().empty()) {
    return check.Error("feature", ": none given; name those that are used");
  }
  const FeatureChecker features(check, parse.field());
  for (int i = 0; i < parse.feature_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(features.Feature(i, parse.feature(i)));
  }
  std::set<std::string> names;
  return features.AreDistinct("feature", parse.feature(), &names);
}

absl::Status CheckSequence(const OptionsChecker& check, const proto::ParseSequenceExample& parse) {
  if (parse.feature().empty() && parse.feature_list().empty()) {
    return check.Error("feature_list", ": none given, and no feature; name those that are used");
  }
  const FeatureChecker features(check, parse.field());
  for (int i = 0; i < parse.feature_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(features.Feature(i, parse.feature(i)));
  }
  for (int i = 0; i < parse.feature_list_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(features.FeatureList(i, parse.feature_list(i)));
  }
  std::set<std::string> names;
  MILLRACE_RETURN_IF_ERROR(features.AreDistinct("feature", parse.feature(), &names));
  return features.AreDistinct("feature_list", parse.feature_list(), &names);
}

// The check of a stage whose features are one value each.
template <typename Parse>
absl::Status CheckScalars(const OptionsChecker& check, const Parse& parse) {
  MILLRACE_RETURN_IF_ERROR(CheckParse(check, parse));
  for (int i = 0; i < parse.feature_size(); ++i) {
    if (parse.feature(i).shape().empty()) continue;
    return FeatureChecker(check, parse.field())
        .Error(i, "shape",
               absl::StrCat("a feature of ", check.op_name(), " is one value; it has no shape"));
  }
  return absl::OkStatus();
}

absl::Status CheckCsv(const OptionsChecker& check, const proto::ParseCsv& parse) {
  MILLRACE_RETURN_IF_ERROR(CheckScalars(check, parse));
  MILLRACE_RETURN_IF_ERROR(
      check.IsDelimiter(parse.delimiter(), " must be one byte, and no quote or line end"));
  std::vector<std::string> columns;
  for (int i = 0; i < parse.column_size(); ++i) {
    if (std::ranges::find(columns, parse.column(i)) != columns.end()) {
      return check.Error("column", absl::StrCat(" \"", parse.column(i), "\" is there twice"), i);
    }
    columns.push_back(parse.column(i));
  }
  for (int i = 0; i < parse.feature_size() && !columns.empty(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const auto names,
                              readers::ExpandKeys(parse.feature(i).key(), parse.feature(i).name()));
    for (const auto& [key, name] : names) {
      if (std::ranges::find(columns, key) != columns.end()) continue;
      return FeatureChecker(check, parse.field())
          .Error(i, "key",
                 absl::StrCat("there is no column \"", key, "\"", DidYouMean(key, columns)));
    }
  }
  return absl::OkStatus();
}

readers::FeatureSpec ToSpec(const proto::Feature& feature) {
  readers::FeatureSpec spec;
  spec.key = feature.key();
  spec.name = feature.name();
  spec.dtype = ToDType(feature.dtype());
  spec.shape = ToShape(feature.shape());
  spec.has_default = feature.default_case() != proto::Feature::DEFAULT_NOT_SET;
  spec.default_int = feature.default_int();
  spec.default_float = feature.default_float();
  spec.default_bytes = feature.default_bytes();
  return spec;
}

readers::FeatureSpec ToSpec(const proto::FeatureList& list) {
  readers::FeatureSpec spec;
  spec.key = list.key();
  spec.name = list.name();
  spec.dtype = ToDType(list.dtype());
  spec.shape = ToShape(list.shape()).Prepend(Shape::kUnknown);
  spec.per_step = true;
  spec.allow_missing = list.allow_missing();
  return spec;
}

template <typename Parse>
std::vector<readers::FeatureSpec> ToSpecs(const Parse& parse) {
  std::vector<readers::FeatureSpec> specs;
  for (const proto::Feature& feature : Expanded(parse.feature())) {
    specs.push_back(ToSpec(feature));
  }
  return specs;
}

OpOptions ToExample(const proto::ParseExample& parse) {
  return readers::ParseExampleOptions{ToSpecs(parse), parse.field()};
}

OpOptions ToSequence(const proto::ParseSequenceExample& parse) {
  readers::ParseSequenceExampleOptions options{ToSpecs(parse), parse.field()};
  for (const proto::FeatureList& list : Expanded(parse.feature_list())) {
    options.features.push_back(ToSpec(list));
  }
  return options;
}

OpOptions ToCsv(const proto::ParseCsv& parse) {
  return readers::ParseFieldsOptions{readers::RecordFormat::kCsv, ToSpecs(parse), parse.field(),
                                     ColumnsOf(parse), parse.delimiter()[0]};
}

template <typename Parse, readers::RecordFormat kFormat>
OpOptions ToFields(const Parse& parse) {
  readers::ParseFieldsOptions options;
  options.format = kFormat;
  options.features = ToSpecs(parse);
  options.field = parse.field();
  if constexpr (requires { parse.allow_nan(); }) options.allow_nan = parse.allow_nan();
  return options;
}

template <typename Options>
OpFields FieldsOfParse(const Options& parse) {
  OpFields fields{{parse.field}, {}, {parse.field}, false};
  for (const readers::FeatureSpec& feature : parse.features) fields.writes.push_back(feature.name);
  return fields;
}

std::string NameOfFormat(const OpOptions& options) {
  return std::string(readers::OpName(std::get<readers::ParseFieldsOptions>(options).format));
}

template <typename Options, auto kMake>
constexpr OpRow ParseOp() {
  return {.index = IndexOf<Options>(),
          .fields = FieldsBy<Options, FieldsOfParse<Options>>,
          .make = MakeBy<Options, kMake>};
}

constexpr OpRow kExampleOp = ParseOp<readers::ParseExampleOptions, readers::MakeParseExample>();
constexpr OpRow kSequenceOp =
    ParseOp<readers::ParseSequenceExampleOptions, readers::MakeParseSequenceExample>();
constexpr OpRow kFieldsOp = {
    .index = IndexOf<readers::ParseFieldsOptions>(),
    .name = NameOfFormat,
    .fields = FieldsBy<readers::ParseFieldsOptions, FieldsOfParse<readers::ParseFieldsOptions>>,
    .make = MakeBy<readers::ParseFieldsOptions, readers::MakeParseFields>};

constexpr Option kRecord = {"field", "bytes, which are gone behind it"};

constexpr StageRow kParseRows[] = {
    {.op_case = Stage::kParseExample,
     .name = "parse_example",
     .doc = "Features of tf.train.Example records.",
     .options = {{"feature",
                  "`key` (several in braces: `\"I{0..12}\"`), `dtype` (BYTES, INT64, FLOAT32), "
                  "`name` of the field (default: the key), "
                  "`shape` (default: a scalar; the first extent may be -1: as many as the record "
                  "has), and `default_int`, `default_float` or `default_bytes` for a record "
                  "without it, which is an error otherwise",
                  kRequired},
                 kRecord},
     .fill = Fill<&Stage::mutable_parse_example, FillParse<proto::ParseExample>>,
     .check = Check<&Stage::parse_example, CheckParse<proto::ParseExample>>,
     .read = Read<&Stage::parse_example, ToExample>,
     .op = &kExampleOp,
     .parses = true},
    {.op_case = Stage::kParseSequenceExample,
     .name = "parse_sequence_example",
     .doc = "Features of tf.train.SequenceExample records: a context, and lists of steps.",
     .options = {{"feature", "of the context, as in `parse_example`"},
                 {"feature_list",
                  "`key`, `dtype` (INT64, FLOAT32; UINT8: one string of so many bytes per step), "
                  "`name` of the field, which has shape [steps, ...] (default: the key), `shape` "
                  "of a step (default: a scalar), and `allow_missing`: a record without it has 0 "
                  "steps, which is an error otherwise",
                  "one of the two is required"},
                 kRecord},
     .fill = Fill<&Stage::mutable_parse_sequence_example, FillSequence>,
     .check = Check<&Stage::parse_sequence_example, CheckSequence>,
     .read = Read<&Stage::parse_sequence_example, ToSequence>,
     .op = &kSequenceOp,
     .parses = true},
    {.op_case = Stage::kParseCsv,
     .name = "parse_csv",
     .doc = "Columns of rows of comma-separated values.",
     .options = {{"feature",
                  "as in `parse_example`; `key` is the name of a column, and there is no `shape`",
                  kRequired},
                 kRecord,
                 {"column", "the names of all columns of a row, in order",
                  "those of the header, or the keys where there is none"},
                 {"delimiter", "one byte"}},
     .fill = Fill<&Stage::mutable_parse_csv, FillCsv>,
     .check = Check<&Stage::parse_csv, CheckCsv>,
     .read = Read<&Stage::parse_csv, ToCsv>,
     .op = &kFieldsOp,
     .parses = true},
    {.op_case = Stage::kParseJson,
     .name = "parse_json",
     .doc = "Values of JSON objects.",
     .options = {{"feature", R"(as in `parse_example`; `key` is a path, `"user.id"`)", kRequired},
                 kRecord,
                 {"allow_nan", "NaN, Infinity and -Infinity are numbers"}},
     .fill = Fill<&Stage::mutable_parse_json, FillParse<proto::ParseJson>>,
     .check = Check<&Stage::parse_json, CheckParse<proto::ParseJson>>,
     .read = Read<&Stage::parse_json, ToFields<proto::ParseJson, readers::RecordFormat::kJson>>,
     .op = &kFieldsOp,
     .parses = true},
    {.op_case = Stage::kParseTar,
     .name = "parse_tar",
     .doc = "Files of WebDataset samples.",
     .options = {{"feature",
                  "as in `parse_example`; `key` is what follows the first dot of a file's name, or "
                  R"(several: `"jpg;jpeg;png"`; there is no `shape`)",
                  kRequired},
                 kRecord},
     .fill = Fill<&Stage::mutable_parse_tar, FillParse<proto::ParseTar>>,
     .check = Check<&Stage::parse_tar, CheckScalars<proto::ParseTar>>,
     .read = Read<&Stage::parse_tar, ToFields<proto::ParseTar, readers::RecordFormat::kTar>>,
     .op = &kFieldsOp,
     .parses = true},
};

}  // namespace

std::vector<std::string> ColumnsOf(const proto::ParseCsv& parse) {
  if (!parse.column().empty()) return ToVector(parse.column());
  std::vector<std::string> keys;
  for (const proto::Feature& feature : Expanded(parse.feature())) keys.push_back(feature.key());
  return keys;
}

constinit const StageFamily kParseStages = {"parse", "Parsing", kParseRows};

}  // namespace millrace::pipeline
