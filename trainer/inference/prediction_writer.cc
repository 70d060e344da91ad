#include "trainer/inference/prediction_writer.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"

namespace millrace::trainer {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

using Text = std::string;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

// A number in the fewest digits that are read back as the same one.
template <typename Number>
void AppendNumber(Number number, std::string& text) {
  char digits[32];
  const auto result = std::to_chars(std::begin(digits), std::end(digits), number);
  text.append(digits, result.ptr);
}

class ExampleWriter final : public PredictionWriter {
 public:
  explicit ExampleWriter(std::unique_ptr<readers::TfRecordWriter> file) : file_(std::move(file)) {}

  absl::Status Write(const Prediction& prediction) override {
    builder_.Clear();
    for (const PredictionField& field : prediction) Add(field);
    return file_->Write(builder_.Serialize());
  }
  absl::Status Close() override { return file_->Close(); }

 private:
  void Add(const PredictionField& field) {
    if (const auto* const text = std::get_if<Text>(&field.value)) {
      builder_.AddBytes(field.name, *text);
    } else if (const auto* const ints = std::get_if<Ints>(&field.value)) {
      builder_.AddInts(field.name, *ints);
    } else {
      builder_.AddFloats(field.name, std::get<Floats>(field.value));
    }
  }

  const std::unique_ptr<readers::TfRecordWriter> file_;
  readers::ExampleBuilder builder_;
};

// Lines of text, one for each sample.
class LineWriter : public PredictionWriter {
 public:
  explicit LineWriter(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  absl::Status Write(const Prediction& prediction) override {
    AppendLine(prediction, buffer_);
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Close() override {
    MILLRACE_RETURN_IF_ERROR(Flush());
    return file_->Commit(/*sync=*/true);
  }

 private:
  virtual void AppendLine(const Prediction& prediction, std::string& text) = 0;

  absl::Status Flush() {
    const absl::Status status = file_->Append(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
    return status;
  }

  const std::unique_ptr<AtomicFile> file_;
  std::string buffer_;
};

// RFC 4180: a field with a quote, a comma or a line end stands in quotes.
std::string Quoted(const std::string& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

class CsvWriter final : public LineWriter {
 public:
  using LineWriter::LineWriter;

 private:
  void AppendLine(const Prediction& prediction, std::string& text) override {
    if (!std::exchange(has_names_, true)) AppendNames(prediction, text);
    const char* comma = "";
    for (const PredictionField& field : prediction) {
      std::visit([&](const auto& value) { AppendValue(value, comma, text); }, field.value);
    }
    text += '\n';
  }

  // A list has a column for each number: "probabilities_0".
  static void AppendNames(const Prediction& prediction, std::string& text) {
    const char* comma = "";
    for (const PredictionField& field : prediction) {
      const size_t columns = std::visit(
          [](const auto& value) {
            return std::is_same_v<std::decay_t<decltype(value)>, Text> ? 1 : value.size();
          },
          field.value);
      for (size_t i = 0; i < columns; ++i) {
        const std::string number = columns > 1 ? absl::StrCat("_", i) : "";
        absl::StrAppend(&text, std::exchange(comma, ","), Quoted(field.name + number));
      }
    }
    text += '\n';
  }

  static void AppendValue(const Text& value, const char*& comma, std::string& text) {
    absl::StrAppend(&text, std::exchange(comma, ","), Quoted(value));
  }
  template <typename Number>
  static void AppendValue(const std::vector<Number>& values, const char*& comma,
                          std::string& text) {
    for (const Number value : values) {
      text += std::exchange(comma, ",");
      AppendNumber(value, text);
    }
  }

  bool has_names_ = false;  // true if the line of names is written
};

class JsonWriter final : public LineWriter {
 public:
  using LineWriter::LineWriter;

 private:
  void AppendLine(const Prediction& prediction, std::string& text) override {
    const char* comma = "{";
    for (const PredictionField& field : prediction) {
      absl::StrAppend(&text, std::exchange(comma, ","), JsonText(field.name), ":");
      std::visit([&](const auto& value) { AppendValue(value, field.is_list, text); }, field.value);
    }
    text += "}\n";
  }

  static std::string JsonText(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  static void AppendValue(const Text& value, bool, std::string& text) { text += JsonText(value); }
  template <typename Number>
  static void AppendValue(const std::vector<Number>& values, bool is_list, std::string& text) {
    if (is_list) text += '[';
    const char* comma = "";
    for (const Number value : values) {
      text += std::exchange(comma, ",");
      AppendJson(value, text);
    }
    if (is_list) text += ']';
  }
  static void AppendJson(int64_t value, std::string& text) { AppendNumber(value, text); }
  // JSON has no infinity, and no NaN.
  static void AppendJson(float value, std::string& text) {
    if (std::isfinite(value)) return AppendNumber(value, text);
    text += "null";
  }
};

template <typename Writer>
absl::StatusOr<std::unique_ptr<PredictionWriter>> OpenLines(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  return std::make_unique<Writer>(std::move(file));
}

absl::StatusOr<std::unique_ptr<PredictionWriter>> OpenExamples(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(auto file, readers::TfRecordWriter::Open(path));
  return std::make_unique<ExampleWriter>(std::move(file));
}

struct Format {
  std::string_view extension;
  absl::StatusOr<std::unique_ptr<PredictionWriter>> (*open)(const std::string& path);
};
constexpr Format kFormats[] = {
    {".tfrecord", OpenExamples},
    {".csv", OpenLines<CsvWriter>},
    {".jsonl", OpenLines<JsonWriter>},
};

const Format* FormatOf(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  for (const Format& format : kFormats) {
    if (extension == format.extension) return &format;
  }
  return nullptr;
}

}  // namespace

absl::Status PredictionWriter::CheckName(const std::string& path) {
  if (FormatOf(path) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": predictions are written as .tfrecord, .csv or .jsonl"));
}

absl::StatusOr<std::unique_ptr<PredictionWriter>> PredictionWriter::Open(const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(CheckName(path));
  MILLRACE_RETURN_IF_ERROR(CheckIsNoFolder(path));
  AtomicFile::RemoveAbandoned(path);
  return FormatOf(path)->open(path);
}

}  // namespace millrace::trainer
