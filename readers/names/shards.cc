#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/local_path.h"
#include "base/status.h"
#include "readers/names/names.h"

namespace millrace::readers::internal {
namespace {

constexpr size_t kSetsShown = 4;

// PREFIX@COUNT.ext
struct ShardSpec {
  std::string prefix;
  std::string count;  // digits or "*"
  std::string extension;
};

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<ShardSpec> ParseSpec(const std::string& text) {
  const size_t name = text.rfind('/') + 1;  // npos + 1 is 0
  const size_t at = text.rfind('@');
  if (at == std::string::npos || at < name) return std::nullopt;
  const size_t dot = std::min(text.find('.', at), text.size());
  ShardSpec spec{text.substr(0, at), text.substr(at + 1, dot - at - 1), text.substr(dot)};
  if (spec.count != "*" && !IsDigits(spec.count)) return std::nullopt;
  return spec;
}

std::string ShardName(const ShardSpec& spec, uint64_t shard, uint64_t count) {
  return absl::StrFormat("%s-%05d-of-%05d%s", spec.prefix, shard, count, spec.extension);
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
}

// The names of the spec's shards, all of which must exist.
absl::StatusOr<std::vector<std::string>> AllOf(const ShardSpec& spec, uint64_t count) {
  std::vector<std::string> names;
  uint64_t num_missing = 0;
  std::string missing;  // the first
  for (uint64_t shard = 0; shard < count; ++shard) {
    names.push_back(ShardName(spec, shard, count));
    if (!SchemeOf(names.back()).empty() || Exists(names.back())) continue;
    MILLRACE_RETURN_IF_ERROR(WhyUnseen(names.back()));
    if (num_missing++ == 0) missing = names.back();
  }
  if (num_missing == 0) return names;
  return absl::NotFoundError(absl::StrCat("there is no ", missing, "; of ", count, " shards ",
                                          num_missing, num_missing == 1 ? " is" : " are",
                                          " missing"));
}

// The N of a file called NAME-SHARD-of-N.ext, or 0.
uint64_t CountOf(std::string_view file, std::string_view name, std::string_view extension) {
  constexpr size_t kLeastDigits = 5;
  constexpr std::string_view kOf = "-of-";
  if (!file.starts_with(name) || !file.ends_with(extension)) return 0;
  if (file.size() < name.size() + extension.size()) return 0;
  file = file.substr(name.size(), file.size() - name.size() - extension.size());
  const size_t of = file.find(kOf);
  if (!file.starts_with('-') || of == std::string_view::npos) return 0;
  const std::string_view shard = file.substr(1, of - 1);
  const std::string_view count = file.substr(of + kOf.size());
  if (!IsDigits(shard) || !IsDigits(count) || count.size() < kLeastDigits) return 0;
  uint64_t number = 0;
  const char* const end = count.data() + count.size();
  return std::from_chars(count.data(), end, number).ec == std::errc() ? number : 0;
}

// How many files there are of each N that begin and end as the spec says.
absl::StatusOr<std::map<uint64_t, uint64_t>> SetsOnDisk(const ShardSpec& spec) {
  const std::filesystem::path prefix(spec.prefix);
  const std::filesystem::path folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  std::map<uint64_t, uint64_t> sets;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    const uint64_t count =
        CountOf(entry->path().filename().string(), prefix.filename().string(), spec.extension);
    if (count > 0) ++sets[count];
  }
  if (error) return ErrnoStatus(error.value(), "read folder", folder.string());
  return sets;
}

absl::StatusOr<std::vector<std::string>> OnlySet(const ShardSpec& spec) {
  const std::string wanted = absl::StrCat(spec.prefix, "-*-of-*", spec.extension);
  if (!SchemeOf(spec.prefix).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(wanted, ": the shards behind a URL cannot be listed; say how many there are"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto sets, SetsOnDisk(spec));
  if (sets.empty()) return absl::NotFoundError(absl::StrCat("no file matches ", wanted));
  if (sets.size() == 1 && sets.begin()->first <= kMaxNames) {
    return AllOf(spec, sets.begin()->first);
  }
  std::vector<std::string> texts;
  for (const auto& [count, files] : sets) {
    if (texts.size() == kSetsShown) break;
    texts.push_back(absl::StrCat(files, " of ", count));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(wanted, ": there are shards of more than one set: ", absl::StrJoin(texts, ", "),
                   sets.size() > kSetsShown ? ", ..." : "", "; say which with @N"));
}

}  // namespace

absl::StatusOr<std::optional<std::vector<std::string>>> ExpandShards(const std::string& text) {
  const std::optional<ShardSpec> spec = ParseSpec(text);
  if (!spec.has_value()) return std::nullopt;
  if (spec->count == "*") return OnlySet(*spec);
  uint64_t count = 0;
  const char* const end = spec->count.data() + spec->count.size();
  const bool fits = std::from_chars(spec->count.data(), end, count).ec == std::errc();
  if (!fits || count == 0 || count > kMaxNames) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": the number of shards is not in 1..", kMaxNames));
  }
  return AllOf(*spec, count);
}

}  // namespace millrace::readers::internal
