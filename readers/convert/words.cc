#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "readers/convert_words.h"

namespace millrace::readers {

absl::StatusOr<ConvertFormat> ParseConvertFormat(std::string_view option, std::string_view word) {
  std::string words;
  for (int i = 0; i <= static_cast<int>(ConvertFormat::kImages); ++i) {
    const auto format = static_cast<ConvertFormat>(i);
    if (word == ConvertFormatName(format)) return format;
    absl::StrAppend(&words, words.empty() ? "" : ", ", ToAbsl(ConvertFormatName(format)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(option), ": '", ToAbsl(word), "' is no format; there are ", words));
}

absl::StatusOr<Compression> ParseCompression(std::string_view option, std::string_view word) {
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    if (word == CompressionName(compression)) return compression;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(option), ": '", ToAbsl(word), "' is not none, gzip, zlib or zstd"));
}

absl::StatusOr<char> ParseDelimiter(std::string_view option, std::string_view word) {
  if (word == "\\t") return '\t';
  if (word.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(option), ": \"", ToAbsl(word), "\" is not one byte"));
  }
  if (word == "\"" || word == "\n" || word == "\r") {
    return absl::InvalidArgumentError(absl::StrCat(ToAbsl(option), ": a quote or a line end"));
  }
  return word.front();
}

std::vector<std::pair<std::string, std::string>> ParseConvertFeatures(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> features;
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(text), ',');
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    features.emplace_back(name, equals == std::string::npos ? name : part.substr(equals + 1));
  }
  return features;
}

}  // namespace millrace::readers
