#include "readers/convert/parser.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/tar_walk.h"
#include "readers/example_view.h"
#include "readers/text/field_reader.h"
#include "readers/text/number_text.h"
#include "readers/text/tar_sample.h"

namespace millrace::readers::internal {
namespace {

class OpaqueParser final : public RecordParser {
 public:
  absl::Status Parse(std::string_view payload, RunArena&, ConvertRecord& record) const override {
    record.bytes = payload;
    return absl::OkStatus();
  }
};

class BytesParser final : public RecordParser {
 public:
  explicit BytesParser(std::string feature) : feature_(std::move(feature)) {}

  absl::Status Parse(std::string_view payload, RunArena&, ConvertRecord& record) const override {
    record.sample.push_back({feature_, std::vector<std::string>{std::string(payload)}});
    return absl::OkStatus();
  }

 private:
  const std::string feature_;
};

class ExampleParser final : public RecordParser {
 public:
  explicit ExampleParser(std::vector<std::string> taken) : taken_(std::move(taken)) {}

  absl::Status Parse(std::string_view payload, RunArena&, ConvertRecord& record) const override {
    MILLRACE_ASSIGN_OR_RETURN(auto features, ViewExample(payload));
    for (auto& [name, values] : features) {
      if (std::holds_alternative<std::monostate>(values) && !IsTaken(name)) continue;
      SampleFeature& feature = record.sample.emplace_back();
      feature.name = name;
      if (const auto* const views = std::get_if<std::vector<std::string_view>>(&values)) {
        feature.values = std::vector<std::string>(views->begin(), views->end());
      } else if (auto* const ints = std::get_if<std::vector<int64_t>>(&values)) {
        feature.values = std::move(*ints);
      } else if (auto* const floats = std::get_if<std::vector<float>>(&values)) {
        feature.values = std::move(*floats);
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("feature '", name, "' has no list of values, which only Examples hold"));
      }
    }
    return absl::OkStatus();
  }

 private:
  bool IsTaken(const std::string& name) const {
    return taken_.empty() || std::ranges::find(taken_, name) != taken_.end();
  }

  const std::vector<std::string> taken_;
};

ParseFieldsOptions WithFeatures(ParseFieldsOptions options,
                                const std::vector<ConvertFeature>& schema) {
  for (const ConvertFeature& feature : schema) {
    FeatureSpec& spec = options.features.emplace_back();
    spec.key = feature.name;
    spec.name = feature.name;
    spec.dtype = feature.dtype;
    if (feature.is_list) spec.shape = Shape{Shape::kUnknown};
    options.columns.push_back(feature.name);
  }
  return options;
}

SampleFeature Move(const std::string& name, DType dtype, RecordField& field) {
  if (dtype == DType::kI64) return {name, std::move(field.ints)};
  if (dtype == DType::kF32) return {name, std::move(field.floats)};
  return {name, std::vector<std::string>{std::string(field.bytes)}};
}

class FieldParser final : public RecordParser {
 public:
  FieldParser(std::vector<ConvertFeature> schema, ParseFieldsOptions options,
              std::span<const int64_t> cells = {})
      : schema_(std::move(schema)),
        options_(WithFeatures(std::move(options), schema_)),
        cells_(cells),
        reader_(MakeFieldReader(options_)) {}

  absl::Status Parse(std::string_view payload, RunArena& arena,
                     ConvertRecord& record) const override {
    std::vector<RecordField> fields(schema_.size());
    MILLRACE_RETURN_IF_ERROR(reader_->Read(payload, cells_, arena, fields));
    for (size_t i = 0; i < fields.size(); ++i) {
      const ConvertFeature& feature = schema_[i];
      if (fields[i].present) {
        record.sample.push_back(Move(feature.name, feature.dtype, fields[i]));
      } else if (!feature.is_optional) {
        return absl::InvalidArgumentError(
            absl::StrCat("value '", feature.name, "' is missing (a ? behind its dtype lets it)"));
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<ConvertFeature> schema_;
  const ParseFieldsOptions options_;
  const std::span<const int64_t> cells_;
  const std::unique_ptr<const FieldReader> reader_;  // looks at options_
};

// A member as nothing but its extension declares it.
absl::Status AddMember(const TarMember& member, Sample& sample) {
  constexpr std::string_view kClass = "cls";
  SampleFeature& feature = sample.emplace_back();
  feature.name = member.extension;
  if (member.extension != kClass) {
    feature.values = std::vector<std::string>{std::string(member.bytes)};
    return absl::OkStatus();
  }
  int64_t label = 0;
  const absl::StatusOr<std::string_view> text = NumberInFile(member.bytes);
  if (!text.ok()) return Annotate(text.status(), "member 'cls'");
  if (const char* const wrong = ParseInt(*text, &label); wrong != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("member 'cls': ", QuotedText(*text), " ", wrong));
  }
  feature.values = std::vector<int64_t>{label};
  return absl::OkStatus();
}

class TarParser final : public RecordParser {
 public:
  explicit TarParser(std::vector<ConvertFeature> schema) {
    if (schema.empty()) return;
    ParseFieldsOptions options;
    options.format = RecordFormat::kTar;
    declared_ = std::make_unique<FieldParser>(std::move(schema), std::move(options));
  }

  absl::Status Parse(std::string_view payload, RunArena& arena,
                     ConvertRecord& record) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto members, ReadTarSample(payload));
    SampleFeature& key = record.sample.emplace_back();
    key.name = kTarKey;
    if (!members.empty()) {
      key.values = std::vector<std::string>{std::string(TarSampleKey(members[0].path))};
    }
    if (declared_ != nullptr) return declared_->Parse(payload, arena, record);
    std::unordered_set<std::string_view> extensions;
    for (const TarMember& member : members) {
      if (!extensions.insert(member.extension).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("member '", member.extension, "' is there twice"));
      }
      MILLRACE_RETURN_IF_ERROR(AddMember(member, record.sample));
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<const RecordParser> declared_;  // null: all members are taken
};

}  // namespace

std::unique_ptr<const RecordParser> MakeOpaqueParser() { return std::make_unique<OpaqueParser>(); }

std::unique_ptr<const RecordParser> MakeBytesParser(std::string feature) {
  return std::make_unique<BytesParser>(std::move(feature));
}

std::unique_ptr<const RecordParser> MakeExampleParser(std::vector<std::string> taken) {
  return std::make_unique<ExampleParser>(std::move(taken));
}

std::unique_ptr<const RecordParser> MakeCsvParser(std::vector<ConvertFeature> schema,
                                                  std::span<const int64_t> cells, char delimiter) {
  ParseFieldsOptions options;
  options.format = RecordFormat::kCsv;
  options.delimiter = delimiter;
  return std::make_unique<FieldParser>(std::move(schema), std::move(options), cells);
}

std::unique_ptr<const RecordParser> MakeJsonParser(std::vector<ConvertFeature> schema,
                                                   bool allow_nan) {
  ParseFieldsOptions options;
  options.format = RecordFormat::kJson;
  options.allow_nan = allow_nan;
  return std::make_unique<FieldParser>(std::move(schema), std::move(options));
}

std::unique_ptr<const RecordParser> MakeTarParser(std::vector<ConvertFeature> schema) {
  return std::make_unique<TarParser>(std::move(schema));
}

}  // namespace millrace::readers::internal
