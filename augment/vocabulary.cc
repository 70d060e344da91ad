#include "augment/vocabulary.h"

#include <xxhash.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/local_file.h"

namespace millrace::augment {

absl::StatusOr<Vocabulary> Vocabulary::Load(const std::string& file) {
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
  vocabulary.digest_ = XXH3_64bits(bytes->data(), bytes->size());
  vocabulary.bytes_ = std::make_unique<const std::string>(*std::move(bytes));
  MILLRACE_RETURN_IF_ERROR(vocabulary.AddLines(file));
  return vocabulary;
}

absl::Status Vocabulary::AddLines(const std::string& file) {
  std::string_view rest = *bytes_;
  for (int64_t line = 0; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    std::string_view token = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (token.ends_with('\r')) token.remove_suffix(1);
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
