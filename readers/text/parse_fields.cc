#include "readers/parse_fields.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "readers/example/feature_spec.h"
#include "readers/text/field_reader.h"
#include "readers/text/record_fields.h"

namespace millrace::readers {

using internal::RecordField;

namespace {

class ParseFields final : public Op {
 public:
  explicit ParseFields(ParseFieldsOptions options)
      : options_(std::move(options)),
        cells_column_(CellsColumn(options_.field)),
        reader_(internal::MakeFieldReader(options_)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return internal::ResolveFeatures(OpName(options_.format), options_.field, options_.features,
                                     input);
  }

  void Apply(Run& run) const override {
    const Column records = run.Take(options_.field);
    const std::optional<Column> cells = TakeCells(run);
    const size_t first = run.columns().size();
    for (const FeatureSpec& spec : options_.features) run.Add(spec.name, spec.dtype);
    std::vector<RecordField> fields(options_.features.size());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      for (RecordField& field : fields) field.Clear();
      absl::Status status =
          reader_->Read(records.bytes(row), CellsOf(cells, row), run.arena(), fields);
      for (size_t i = 0; i < fields.size() && status.ok(); ++i) {
        status = Store(run, row, first + i, options_.features[i], fields[i]);
      }
      if (!status.ok()) internal::FailRecord(run, row, std::move(status));
    }
  }

 private:
  std::optional<Column> TakeCells(Run& run) const {
    if (run.Find(cells_column_) == nullptr) return std::nullopt;
    return run.Take(cells_column_);
  }
  static std::span<const int64_t> CellsOf(const std::optional<Column>& cells, int64_t row) {
    if (!cells.has_value()) return {};
    const ConstTensorView value = cells->at(row);
    if (value.data == nullptr) return {};
    return value.as<int64_t>();
  }

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
  const std::string cells_column_;
  const std::unique_ptr<const internal::FieldReader> reader_;  // looks at options_
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

std::string CellsColumn(std::string_view field) {
  return std::string(field).append(std::string_view("\0cells", 6));
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
