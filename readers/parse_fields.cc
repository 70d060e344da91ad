#include "readers/parse_fields.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "readers/csv_row_internal.h"
#include "readers/feature_spec_internal.h"
#include "readers/json_record_internal.h"
#include "readers/number_text_internal.h"
#include "readers/record_fields_internal.h"
#include "readers/tar_sample_internal.h"

namespace millrace::readers {

using internal::RecordField;

namespace {

// Reads what is wanted of a record. Immutable.
class FieldReader {
 public:
  virtual ~FieldReader() = default;

  // `fields` are those of the features, all missing.
  //   DATA_LOSS         the record is not of the format
  //   INVALID_ARGUMENT  it is, but not as declared
  virtual absl::Status Read(std::string_view record, RunArena& arena,
                            std::span<RecordField> fields) const = 0;
};

class CsvReader final : public FieldReader {
 public:
  // REQUIRES: every feature's key is one of the columns.
  CsvReader(std::span<const FeatureSpec> features, std::vector<std::string> columns, char delimiter)
      : features_(features), columns_(std::move(columns)), delimiter_(delimiter) {
    for (const FeatureSpec& spec : features_) {
      const auto number = std::ranges::find(columns_, spec.key) - columns_.begin();
      numbers_.push_back(static_cast<size_t>(number));
      places_.push_back(absl::StrCat("column ", number + 1, " ('", spec.key, "')"));
    }
  }

  absl::Status Read(std::string_view record, RunArena& arena,
                    std::span<RecordField> fields) const override {
    std::vector<internal::CsvCell> cells(columns_.size());
    MILLRACE_ASSIGN_OR_RETURN(const size_t count,
                              internal::SplitCsvRow(record, delimiter_, arena, cells));
    if (count != columns_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the row has ", count, " columns, wanted ", columns_.size()));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(ReadCell(i, cells[numbers_[i]], fields[i]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadCell(size_t feature, const internal::CsvCell& cell, RecordField& field) const {
    const FeatureSpec& spec = features_[feature];
    const bool is_bytes = spec.dtype == DType::kBytes;
    const std::string_view text = is_bytes ? cell.text : internal::TrimBlanks(cell.text);
    if (text.empty() && !cell.quoted) return absl::OkStatus();  // missing
    return AddText(spec, text, places_[feature], field);
  }

  const std::span<const FeatureSpec> features_;
  const std::vector<std::string> columns_;
  const char delimiter_;
  // Of each feature's column; constant after construction.
  std::vector<size_t> numbers_;
  std::vector<std::string> places_;  // for messages
};

class JsonFieldReader final : public FieldReader {
 public:
  explicit JsonFieldReader(std::span<const FeatureSpec> features) : paths_(features) {}

  absl::Status Read(std::string_view record, RunArena& arena,
                    std::span<RecordField> fields) const override {
    return paths_.Read(record, arena, fields);
  }

 private:
  const internal::JsonPaths paths_;
};

class TarFieldReader final : public FieldReader {
 public:
  explicit TarFieldReader(std::span<const FeatureSpec> features) : features_(features) {
    for (const FeatureSpec& spec : features_) {
      extensions_.push_back(absl::StrSplit(absl::AsciiStrToLower(spec.key), ';'));
    }
  }

  absl::Status Read(std::string_view record, RunArena&,
                    std::span<RecordField> fields) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto members, internal::ReadTarSample(record));
    for (size_t i = 0; i < fields.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(ReadMember(i, members, fields[i]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadMember(size_t feature, std::span<const internal::TarMember> members,
                          RecordField& field) const {
    for (const std::string& extension : extensions_[feature]) {
      const auto found = std::ranges::find(members, extension, &internal::TarMember::extension);
      if (found == members.end()) continue;
      const std::string where = absl::StrCat("member '", extension, "'");
      if (std::ranges::count(members, extension, &internal::TarMember::extension) > 1) {
        return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
      }
      const FeatureSpec& spec = features_[feature];
      const bool is_bytes = spec.dtype == DType::kBytes;
      return AddText(spec, is_bytes ? found->bytes : internal::TrimBlanks(found->bytes), where,
                     field);
    }
    return absl::OkStatus();  // missing
  }

  const std::span<const FeatureSpec> features_;
  std::vector<std::vector<std::string>> extensions_;  // constant after construction
};

std::unique_ptr<FieldReader> MakeReader(const ParseFieldsOptions& options) {
  switch (options.format) {
    case RecordFormat::kCsv:
      return std::make_unique<CsvReader>(options.features, options.columns, options.delimiter);
    case RecordFormat::kTar:
      return std::make_unique<TarFieldReader>(options.features);
    case RecordFormat::kJson:
      break;
  }
  return std::make_unique<JsonFieldReader>(options.features);
}

class ParseFields final : public Op {
 public:
  explicit ParseFields(ParseFieldsOptions options)
      : options_(std::move(options)), reader_(MakeReader(options_)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return internal::ResolveFeatures(OpName(options_.format), options_.field, options_.features,
                                     input);
  }

  void Apply(Run& run) const override {
    const Column records = run.Take(options_.field);
    const size_t first = run.columns().size();
    for (const FeatureSpec& spec : options_.features) run.Add(spec.name, spec.dtype);
    std::vector<RecordField> fields(options_.features.size());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      for (RecordField& field : fields) field.Clear();
      absl::Status status = reader_->Read(records.bytes(row), run.arena(), fields);
      for (size_t i = 0; i < fields.size() && status.ok(); ++i) {
        status = Store(run, row, first + i, options_.features[i], fields[i]);
      }
      if (!status.ok()) internal::FailRecord(run, row, std::move(status));
    }
  }

 private:
  // Puts the value where the column has its place, or says why there is none.
  static absl::Status Store(Run& run, int64_t row, size_t number, const FeatureSpec& spec,
                            const RecordField& field) {
    Column& column = run.columns()[number];
    const bool is_ragged = internal::IsRagged(spec);
    if (!field.present && !spec.has_default && !is_ragged) {
      return absl::InvalidArgumentError(absl::StrCat("value '", spec.key, "' is missing"));
    }
    if (spec.dtype == DType::kBytes) {
      const std::string_view bytes = field.present ? field.bytes : spec.default_bytes;
      column.Set(row, bytes.empty() ? "" : bytes.data(), {static_cast<int64_t>(bytes.size())});
      return absl::OkStatus();
    }
    if (!field.present && spec.has_default) {
      const Shape shape = internal::ShapeOf(spec, 1);
      internal::FillDefault(spec, run.Allocate(column, row, shape), shape.num_elements());
      return absl::OkStatus();
    }
    const int64_t step = is_ragged ? internal::ShapeOf(spec, 1).num_elements() : 1;
    const Shape shape = internal::ShapeOf(spec, field.num_values() / step);
    void* const out = run.Allocate(column, row, shape);
    if (!field.ints.empty()) std::memcpy(out, field.ints.data(), field.ints.size() * 8);
    if (!field.floats.empty()) std::memcpy(out, field.floats.data(), field.floats.size() * 4);
    return absl::OkStatus();
  }

  const ParseFieldsOptions options_;
  const std::unique_ptr<const FieldReader> reader_;  // looks at options_
};

absl::Status CheckCsv(const ParseFieldsOptions& options) {
  const auto bad = [](auto&&... text) {
    return absl::InvalidArgumentError(absl::StrCat("parse_csv: ", text...));
  };
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    return bad("a delimiter that is a quote or a line end");
  }
  for (const FeatureSpec& spec : options.features) {
    const auto same = std::ranges::count(options.columns, spec.key);
    if (same == 0) {
      return bad("there is no column '", spec.key, "'", DidYouMean(spec.key, options.columns));
    }
    if (same > 1) return bad("two columns are called '", spec.key, "'");
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view OpName(RecordFormat format) {
  if (format == RecordFormat::kCsv) return "parse_csv";
  return format == RecordFormat::kTar ? "parse_tar" : "parse_json";
}

absl::StatusOr<std::unique_ptr<Op>> MakeParseFields(ParseFieldsOptions options) {
  const std::string_view op = OpName(options.format);
  MILLRACE_RETURN_IF_ERROR(internal::CheckFeatures(op, options.features));
  for (const FeatureSpec& spec : options.features) {
    if (options.format == RecordFormat::kJson || spec.dtype == DType::kBytes) continue;
    if (spec.shape.rank() > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(ToAbsl(op), ": feature '", spec.key, "' is one number, not an array"));
    }
  }
  if (options.format == RecordFormat::kCsv) MILLRACE_RETURN_IF_ERROR(CheckCsv(options));
  return std::make_unique<ParseFields>(std::move(options));
}

}  // namespace millrace::readers
