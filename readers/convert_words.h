#ifndef MILLRACE_READERS_CONVERT_WORDS_H_
#define MILLRACE_READERS_CONVERT_WORDS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "readers/convert.h"
#include "readers/record.h"

// Options of conversions as words, which flags and other languages give. `option` is the name in an
// error.

namespace millrace::readers {

// The format that ConvertFormatName calls so.
//   INVALID_ARGUMENT  none; the message lists them
absl::StatusOr<ConvertFormat> ParseConvertFormat(std::string_view option, std::string_view word);

// "none", "gzip", "zlib" or "zstd".
//   INVALID_ARGUMENT  another word
absl::StatusOr<Compression> ParseCompression(std::string_view option, std::string_view word);

// One byte, "\t" for a tab.
//   INVALID_ARGUMENT  it is not one byte, or a quote or a line end
absl::StatusOr<char> ParseDelimiter(std::string_view option, std::string_view word);

// Parses "image/encoded=jpg,label": names, each optionally with a new name.
std::vector<std::pair<std::string, std::string>> ParseConvertFeatures(std::string_view text);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONVERT_WORDS_H_
