#include "readers/view_record.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/run.h"
#include "base/status.h"
#include "readers/text/csv_row.h"
#include "readers/text/json_record.h"
#include "readers/text/tar_sample.h"

namespace millrace::readers {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string_view> One(std::string_view bytes) { return {bytes}; }

bool IsInt(const Json& value) {
  return value.is_boolean() ||
         (value.is_number_integer() &&
          (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX}));
}

// NaN and the infinities, which JSON does not have, are parsed as strings that begin so.
constexpr std::string_view kMark = "\x01";
constexpr std::array<std::pair<std::string_view, float>, 3> kNonFinite = {{
    {"NaN", std::numeric_limits<float>::quiet_NaN()},
    {"Infinity", std::numeric_limits<float>::infinity()},
    {"-Infinity", -std::numeric_limits<float>::infinity()},
}};

// The number that stands for a marked string.
std::optional<float> NonFinite(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string_view text = value.get_ref<const std::string&>();
  for (const auto& [word, number] : kNonFinite) {
    if (text.starts_with(kMark) && text.substr(kMark.size()) == word) return number;
  }
  return std::nullopt;
}

// `line` with marked strings in place of NaN and the infinities.
std::string WithMarks(std::string_view line) {
  std::string marked;
  bool quoted = false;
  while (!line.empty()) {
    const auto begins = [&](const auto& entry) { return line.starts_with(entry.first); };
    const auto word = std::ranges::find_if(kNonFinite, begins);
    if (!quoted && word != kNonFinite.end()) {
      absl::StrAppend(&marked, "\"\\u0001", ToAbsl(word->first), "\"");
      line.remove_prefix(word->first.size());
      continue;
    }
    if (line[0] == '"') quoted = !quoted;
    const size_t bytes = line[0] == '\\' ? std::min<size_t>(2, line.size()) : 1;
    marked += line.substr(0, bytes);
    line.remove_prefix(bytes);
  }
  return marked;
}

// Of a value that is neither an object nor a list, as a list of one.
FeatureValues ValuesOf(const Json& list) {
  const auto all = [&](const auto& test) { return std::all_of(list.begin(), list.end(), test); };
  if (list.empty()) return std::vector<int64_t>();
  if (all([](const Json& value) { return value.is_string() && !NonFinite(value); })) {
    std::vector<std::string_view> values;
    for (const Json& value : list) values.emplace_back(value.get_ref<const std::string&>());
    return values;
  }
  if (all(IsInt)) {
    std::vector<int64_t> values;
    for (const Json& value : list) {
      values.push_back(value.is_boolean() ? value.get<bool>() : value.get<int64_t>());
    }
    return values;
  }
  if (all([](const Json& value) { return value.is_number() || NonFinite(value); })) {
    std::vector<float> values;
    for (const Json& value : list) {
      const std::optional<float> number = NonFinite(value);
      values.push_back(number ? *number : value.get<float>());
    }
    return values;
  }
  return std::monostate();
}

}  // namespace

class RecordViewer::Impl {
 public:
  explicit Impl(const ScanKind& kind) : kind_(kind) {}

  void SetColumns(std::vector<std::string> names) { columns_ = std::move(names); }

  absl::StatusOr<NamedValues> View(std::string_view payload) {
    if (kind_.is_folder) return NamedValues{{"image", One(payload)}};
    switch (kind_.container.kind) {
      case ContainerKind::kTfRecord:
        return Example(payload);
      case ContainerKind::kCsv:
        return Row(payload);
      case ContainerKind::kTar:
        return Members(payload);
      case ContainerKind::kText:
        return is_json() ? Object(payload) : NamedValues();
      case ContainerKind::kFixedLength:
      case ContainerKind::kIdx:
        break;
    }
    return NamedValues();
  }

  bool needs_nan() const { return needs_nan_; }

  Widening widening() const {
    if (kind_.is_folder) return Widening::kNone;
    if (is_csv() || kind_.container.kind == ContainerKind::kTar) return Widening::kText;
    return is_json() ? Widening::kNumbers : Widening::kNone;
  }

 private:
  bool is_csv() const { return !kind_.is_folder && kind_.container.kind == ContainerKind::kCsv; }
  bool is_json() const { return kind_.container.skips_blank; }

  static absl::StatusOr<NamedValues> Example(std::string_view payload) {
    MILLRACE_ASSIGN_OR_RETURN(auto features, ViewExample(payload));
    NamedValues values;
    for (auto& [name, list] : features) values.emplace_back(name, std::move(list));
    return values;
  }

  absl::StatusOr<NamedValues> Row(std::string_view row) {
    arena_.Reset();
    const auto delimiters = static_cast<size_t>(std::ranges::count(row, kind_.container.delimiter));
    std::vector<internal::CsvCell> cells(delimiters + 1);
    MILLRACE_ASSIGN_OR_RETURN(const size_t count,
                              internal::SplitCsvRow(row, kind_.container.delimiter, arena_, cells));
    NamedValues values;
    for (size_t i = 0; i < count; ++i) {
      values.emplace_back(i < columns_.size() ? columns_[i] : absl::StrCat("column_", i + 1),
                          One(cells[i].text));
    }
    return values;
  }

  absl::StatusOr<NamedValues> Members(std::string_view blocks) {
    MILLRACE_ASSIGN_OR_RETURN(const auto members, internal::ReadTarSample(blocks));
    NamedValues values;
    for (const auto& member : members) values.emplace_back(member.extension, One(member.bytes));
    return values;
  }

  absl::StatusOr<NamedValues> Object(std::string_view line) {
    json_ = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    needs_nan_ = false;
    if (json_.is_discarded()) {
      json_ = Json::parse(WithMarks(line), nullptr, /*allow_exceptions=*/false);
      needs_nan_ = json_.is_object();
    }
    if (!json_.is_object()) return absl::DataLossError("not an object of JSON");
    NamedValues values;
    if (!Flatten(json_, "", 1, values)) return absl::DataLossError("nested too deeply");
    return values;
  }

  static bool Flatten(Json& object, const std::string& path, int depth, NamedValues& values) {
    if (depth > internal::JsonPaths::kMaxDepth) return false;
    for (const auto& [key, value] : object.items()) {
      const std::string name = path.empty() ? key : absl::StrCat(path, ".", key);
      if (value.is_object()) {
        if (!Flatten(value, name, depth + 1, values)) return false;
        continue;
      }
      if (!value.is_array()) value = Json::array({std::move(value)});
      values.emplace_back(name, ValuesOf(value));
    }
    return true;
  }

  const ScanKind kind_;
  std::vector<std::string> columns_;  // names that the file gives
  RunArena arena_;
  Json json_;  // the record that is looked at
  bool needs_nan_ = false;
};

RecordViewer::RecordViewer(const ScanKind& kind) : impl_(std::make_unique<Impl>(kind)) {}
RecordViewer::~RecordViewer() = default;

void RecordViewer::SetColumns(std::vector<std::string> names) {
  impl_->SetColumns(std::move(names));
}
absl::StatusOr<NamedValues> RecordViewer::View(std::string_view payload) {
  return impl_->View(payload);
}
bool RecordViewer::needs_nan() const { return impl_->needs_nan(); }
Widening RecordViewer::widening() const { return impl_->widening(); }

}  // namespace millrace::readers
