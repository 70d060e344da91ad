#include "readers/text/field_reader.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/example/feature_spec.h"
#include "readers/text/csv_row.h"
#include "readers/text/json_record.h"
#include "readers/text/number_text.h"
#include "readers/text/tar_sample.h"

namespace millrace::readers::internal {
namespace {

class CsvReader final : public FieldReader {
 public:
  // REQUIRES: every feature's key is one of the columns.
  explicit CsvReader(const ParseFieldsOptions& options)
      : features_(options.features),
        num_columns_(options.columns.size()),
        delimiter_(options.delimiter) {
    for (const FeatureSpec& spec : features_) {
      const auto number = std::ranges::find(options.columns, spec.key) - options.columns.begin();
      numbers_.push_back(static_cast<size_t>(number));
    }
  }

  absl::Status Read(std::string_view record, std::span<const int64_t> order, RunArena& arena,
                    std::span<RecordField> fields) const override {
    const size_t num_cells = order.empty() ? num_columns_ : static_cast<size_t>(order[0]);
    absl::InlinedVector<CsvCell, 16> cells(num_cells);
    MILLRACE_ASSIGN_OR_RETURN(const size_t count,
                              SplitCsvRow(record, delimiter_, arena, {cells.data(), cells.size()}));
    if (count != num_cells) {
      return absl::InvalidArgumentError(
          absl::StrCat("the row has ", count, " columns, wanted ", num_cells));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const size_t cell = order.empty() ? numbers_[i] : static_cast<size_t>(order[numbers_[i] + 1]);
      MILLRACE_RETURN_IF_ERROR(ReadCell(features_[i], cells[cell], cell, fields[i]));
    }
    return absl::OkStatus();
  }

 private:
  // `number` is the cell's, for messages.
  static absl::Status ReadCell(const FeatureSpec& spec, const CsvCell& cell, size_t number,
                               RecordField& field) {
    const bool is_bytes = spec.dtype == DType::kBytes;
    const std::string_view text = is_bytes ? cell.text : TrimBlanks(cell.text);
    if (text.empty() && !cell.quoted) return absl::OkStatus();  // missing
    const absl::Status status = AddText(spec, text, field);
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat("column ", number + 1, " ('", spec.key, "')"));
  }

  const std::span<const FeatureSpec> features_;
  const size_t num_columns_;
  const char delimiter_;
  std::vector<size_t> numbers_;  // of each feature's column; constant after construction
};

class JsonFieldReader final : public FieldReader {
 public:
  explicit JsonFieldReader(const ParseFieldsOptions& options)
      : paths_(options.features, options.allow_nan) {}

  absl::Status Read(std::string_view record, std::span<const int64_t>, RunArena& arena,
                    std::span<RecordField> fields) const override {
    return paths_.Read(record, arena, fields);
  }

 private:
  const JsonPaths paths_;
};

class TarFieldReader final : public FieldReader {
 public:
  explicit TarFieldReader(std::span<const FeatureSpec> features) : features_(features) {
    for (const FeatureSpec& spec : features_) {
      extensions_.push_back(absl::StrSplit(absl::AsciiStrToLower(spec.key), ';'));
    }
  }

  absl::Status Read(std::string_view record, std::span<const int64_t>, RunArena&,
                    std::span<RecordField> fields) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto members, ReadTarSample(record));
    for (size_t i = 0; i < fields.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(ReadMember(i, members, fields[i]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadMember(size_t feature, std::span<const TarMember> members,
                          RecordField& field) const {
    for (const std::string& extension : extensions_[feature]) {
      const auto found = std::ranges::find(members, extension, &TarMember::extension);
      if (found == members.end()) continue;
      const std::string where = absl::StrCat("member '", extension, "'");
      if (std::ranges::count(members, extension, &TarMember::extension) > 1) {
        return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
      }
      return Annotate(AddMember(features_[feature], found->bytes, field), where);
    }
    const FeatureSpec& spec = features_[feature];
    const bool may_miss = spec.has_default || IsRagged(spec);
    return may_miss ? absl::OkStatus() : Missing(spec, members);
  }

  static absl::Status AddMember(const FeatureSpec& spec, std::string_view bytes,
                                RecordField& field) {
    if (spec.dtype == DType::kBytes) return AddText(spec, bytes, field);
    MILLRACE_ASSIGN_OR_RETURN(const std::string_view text, NumberInFile(bytes));
    return AddText(spec, text, field);
  }

  static absl::Status Missing(const FeatureSpec& spec, std::span<const TarMember> members) {
    const auto add = [](std::string* out, const TarMember& member) {
      out->append(ShownText(member.extension));
    };
    const std::string there = absl::StrJoin(members, ", ", add);
    return absl::InvalidArgumentError(absl::StrCat(
        "value '", spec.key, "' is missing; the sample has ", there.empty() ? "no file" : there));
  }

  const std::span<const FeatureSpec> features_;
  std::vector<std::vector<std::string>> extensions_;  // constant after construction
};

}  // namespace

std::unique_ptr<const FieldReader> MakeFieldReader(const ParseFieldsOptions& options) {
  switch (options.format) {
    case RecordFormat::kCsv:
      return std::make_unique<CsvReader>(options);
    case RecordFormat::kTar:
      return std::make_unique<TarFieldReader>(options.features);
    case RecordFormat::kJson:
      break;
  }
  return std::make_unique<JsonFieldReader>(options);
}

}  // namespace millrace::readers::internal
