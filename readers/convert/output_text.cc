#include <cmath>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/utf8.h"
#include "readers/convert/output.h"

// Samples as text: rows of CSV and lines of JSON. Both have columns, which are declared, or those
// of the first good record; a sample that does not fit them is an error, since a reader would take
// it for something else.

namespace millrace::readers::internal {
namespace {

absl::StatusOr<std::vector<ConvertFeature>> ColumnsOf(const Sample& sample) {
  std::vector<ConvertFeature> columns;
  for (const SampleFeature& feature : sample) {
    const bool is_list = feature.num_values() != 1;
    if (is_list && feature.dtype() == DType::kBytes) {
      return FeatureError(feature.name,
                          absl::StrCat("has ", feature.num_values(),
                                       " values of bytes, and there is room for one"));
    }
    columns.push_back({feature.name, feature.dtype(), is_list, false});
  }
  return columns;
}

class ColumnsOutput : public ConvertOutput {
 public:
  explicit ColumnsOutput(const ConvertOptions& options) : options_(options) {}

  absl::Status CheckDeclared(const std::vector<ConvertFeature>& declared) const override {
    for (const ConvertFeature& column : declared) {
      MILLRACE_RETURN_IF_ERROR(CheckName(column));
      MILLRACE_RETURN_IF_ERROR(CheckColumn(column));
    }
    return absl::OkStatus();
  }
  bool needs_first() const override { return true; }
  absl::Status Begin(const std::vector<ConvertFeature>& declared,
                     const ConvertRecord* first) override {
    columns_ = declared;
    places_.clear();
    if (columns_.empty() && first != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(columns_, ColumnsOf(first->sample));
    }
    if (columns_.empty()) {
      return absl::InvalidArgumentError(
          "schema: needed, because there is no feature to take the columns from");
    }
    for (const ConvertFeature& column : columns_) places_.emplace(column.name, places_.size());
    return declared.empty() ? CheckDeclared(columns_) : absl::OkStatus();
  }

  std::string schema() const override { return ToString(columns_); }

 protected:
  virtual absl::Status CheckColumn(const ConvertFeature& column) const = 0;

  // The feature of each column, null where it is missing. Each of the sample's has one.
  absl::StatusOr<std::vector<const SampleFeature*>> Align(const Sample& sample) const {
    std::vector<const SampleFeature*> row(columns_.size());
    for (const SampleFeature& feature : sample) {
      const auto place = places_.find(feature.name);
      if (place == places_.end()) {
        return FeatureError(feature.name, "is no column; the schema has to name it");
      }
      row[place->second] = &feature;
    }
    for (size_t i = 0; i < row.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(CheckFits(columns_[i], row[i]));
    }
    return row;
  }

  const ConvertOptions& options_;
  // Constant after Begin.
  std::vector<ConvertFeature> columns_;

 private:
  // The manifest has the columns as ParseConvertSchema takes them.
  static absl::Status CheckName(const ConvertFeature& column) {
    const auto parsed = ParseConvertSchema(ToString({&column, 1}));
    if (parsed.ok() && *parsed == std::vector<ConvertFeature>{column}) return absl::OkStatus();
    return FeatureError(column.name, "no schema can say this name, so it could not be read again");
  }

  static absl::Status CheckFits(const ConvertFeature& column, const SampleFeature* feature) {
    if (feature == nullptr) {
      return column.is_optional
                 ? absl::OkStatus()
                 : FeatureError(column.name, "is missing; the schema has to say so with a ?");
    }
    if (feature->dtype() != column.dtype) {
      return FeatureError(column.name,
                          absl::StrCat("is ", ToAbsl(Name(feature->dtype())), ", and its column ",
                                       ToAbsl(Name(column.dtype))));
    }
    if (column.is_list || feature->num_values() == 1) return absl::OkStatus();
    return FeatureError(column.name, absl::StrCat("has ", feature->num_values(),
                                                  " values, and its column is no list"));
  }

  std::unordered_map<std::string, size_t> places_;  // of columns by name
};

class CsvOutput final : public ColumnsOutput {
 public:
  using ColumnsOutput::ColumnsOutput;

  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto row, Align(record.sample));
    EncodedRecord encoded;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) encoded.bytes += ',';
      if (row[i] == nullptr) continue;
      MILLRACE_ASSIGN_OR_RETURN(const std::string cell, OneValueText(*row[i]));
      AppendCell(cell, encoded.bytes);
    }
    if (encoded.bytes.empty()) {
      return absl::InvalidArgumentError("csv cannot hold it: a row of one missing cell is none");
    }
    encoded.bytes += '\n';
    return encoded;
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    std::string header;
    for (const ConvertFeature& column : columns_) {
      if (!header.empty()) header += ',';
      AppendCell(column.name, header);
    }
    return OpenFileShard(path, options_, header + "\n");
  }

 private:
  absl::Status CheckColumn(const ConvertFeature& column) const override {
    if (!column.is_list) return absl::OkStatus();
    return FeatureError(column.name,
                        "is a list, and a cell of csv holds one value; jsonl holds lists");
  }

  // A cell that is not quoted and empty is missing.
  static void AppendCell(std::string_view cell, std::string& out) {
    if (!cell.empty() && cell.find_first_of("\",\r\n") == std::string_view::npos) {
      out += cell;
      return;
    }
    out += '"';
    for (const char c : cell) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
  }
};

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

class JsonOutput final : public ColumnsOutput {
 public:
  using ColumnsOutput::ColumnsOutput;

  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto row, Align(record.sample));
    EncodedRecord encoded;
    std::string& line = encoded.bytes;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] == nullptr) continue;
      line += line.empty() ? '{' : ',';
      AppendJsonString(columns_[i].name, line);
      line += ':';
      MILLRACE_RETURN_IF_ERROR(AppendValues(columns_[i], *row[i], line));
    }
    line += line.empty() ? "{}\n" : "}\n";
    return encoded;
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    return OpenFileShard(path, options_);
  }

 private:
  absl::Status CheckColumn(const ConvertFeature& column) const override {
    if (IsUtf8(column.name)) return absl::OkStatus();
    return FeatureError(column.name, "its name is not UTF-8, which JSON is");
  }

  static absl::Status AppendValues(const ConvertFeature& column, const SampleFeature& feature,
                                   std::string& line) {
    if (const std::string* const text = OneValue<std::string>(feature)) {
      if (!IsUtf8(*text)) {
        return FeatureError(feature.name, "its bytes are not UTF-8, which JSON is");
      }
      AppendJsonString(*text, line);
      return absl::OkStatus();
    }
    const auto append_all = [&](const auto& values) {
      if (column.is_list) line += '[';
      for (size_t i = 0; i < values.size(); ++i) {
        if (i > 0) line += ',';
        line += NumberText(values[i]);
      }
      if (column.is_list) line += ']';
    };
    if (const auto* const ints = std::get_if<std::vector<int64_t>>(&feature.values)) {
      append_all(*ints);
      return absl::OkStatus();
    }
    const auto& floats = std::get<std::vector<float>>(feature.values);
    for (const float value : floats) {
      if (!std::isfinite(value)) {
        return FeatureError(feature.name, "is infinite or NaN, which JSON has no number for");
      }
    }
    append_all(floats);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<ConvertOutput> MakeCsvOutput(const ConvertOptions& options) {
  return std::make_unique<CsvOutput>(options);
}

std::unique_ptr<ConvertOutput> MakeJsonOutput(const ConvertOptions& options) {
  return std::make_unique<JsonOutput>(options);
}

}  // namespace millrace::readers::internal
