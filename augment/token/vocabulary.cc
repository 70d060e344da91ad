#include "augment/vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/open_file.h"

namespace millrace::augment {

absl::StatusOr<Vocabulary> Vocabulary::Load(const std::string& file, int64_t max_tokens) {
  // A pipe would be empty when it is read for the second time.
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not a regular file"));
  }
  auto bytes = readers::ReadWholeFile(file, kMaxFileBytes);
  MILLRACE_RETURN_IF_ERROR(bytes.status());
  if (bytes->empty())
    return absl::InvalidArgumentError(absl::StrCat(file, ": no token; it is empty"));
  Vocabulary vocabulary;
  if (const std::string_view why = WhyNotText(*bytes); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", ToAbsl(why)));
  }
  vocabulary.digest_ = XXH3_64bits(bytes->data(), bytes->size());
  vocabulary.bytes_ = std::make_unique<const std::string>(*std::move(bytes));
  MILLRACE_RETURN_IF_ERROR(vocabulary.AddLines(file, max_tokens));
  return vocabulary;
}

std::vector<std::string_view> Vocabulary::Tokens() const {
  std::vector<std::string_view> tokens(ids_.size());
  for (const auto& [token, id] : ids_) tokens[static_cast<size_t>(id)] = token;
  return tokens;
}

absl::Status Vocabulary::AddLines(const std::string& file, int64_t max_tokens) {
  std::string_view rest = std::string_view(*bytes_).substr(ByteOrderMarkBytes(*bytes_));
  const auto count = [&](char c) { return static_cast<int64_t>(std::ranges::count(rest, c)); };
  const int64_t lines = std::max(count('\n'), count('\r')) + 1;
  // Once and for all: a table that grows is there twice.
  ids_.reserve(static_cast<size_t>(std::min(lines, max_tokens)));
  for (int64_t line = 0; !rest.empty(); ++line) {
    if (line == max_tokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          file, ":", line + 1, ": a token too many; at most ", max_tokens, " are allowed"));
    }
    const std::string_view token = TakeLine(rest);
    if (token.size() > kMaxTokenBytes) {
      return absl::InvalidArgumentError(absl::StrCat(file, ":", line + 1, ": the token has ",
                                                     token.size(), " bytes; at most ",
                                                     kMaxTokenBytes, " are allowed"));
    }
    const auto [entry, fresh] = ids_.emplace(token, line);
    if (fresh) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", line + 1, ": token \"", absl::CHexEscape(ToAbsl(token)),
                     "\" is there twice; the first is in line ", entry->second + 1));
  }
  return absl::OkStatus();
}

}  // namespace millrace::augment
