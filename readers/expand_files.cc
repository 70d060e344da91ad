#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "readers/record_source.h"

namespace millrace::readers {
namespace {

constexpr size_t kMaxNamesCompared = 10000;  // a folder of shards is smaller; the message can wait
constexpr size_t kNamesShown = 3;

bool IsFolder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

// Levenshtein's distance: insertions, deletions and replacements, one each.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The names in `folder` that are nearest to `name`, nearest first.
std::vector<std::string> NearestNames(const std::filesystem::path& folder,
                                      const std::string& name) {
  std::vector<std::pair<size_t, std::string>> ranked;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  const std::filesystem::directory_iterator end;
  while (!error && entry != end && ranked.size() < kMaxNamesCompared) {
    std::string candidate = entry->path().filename().string();
    ranked.emplace_back(EditDistance(name, candidate), std::move(candidate));
    entry.increment(error);
  }
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > kNamesShown) ranked.resize(kNamesShown);
  std::vector<std::string> names;
  for (auto& [distance, candidate] : ranked) names.push_back(std::move(candidate));
  return names;
}

absl::Status NothingMatches(const std::string& pattern) {
  if (IsFolder(pattern)) {
    return absl::NotFoundError(
        absl::StrCat(pattern, " is a folder, not a file; name its files: ", pattern, "/*"));
  }
  const std::filesystem::path path(pattern);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::string text = absl::StrCat("no file matches ", pattern);
  if (folder.string().find_first_of("*?[") != std::string::npos) return absl::NotFoundError(text);
  if (!IsFolder(folder.string())) {
    return absl::NotFoundError(absl::StrCat(text, ": there is no folder ", folder.string()));
  }
  const std::vector<std::string> names = NearestNames(folder, path.filename().string());
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat(text, ": the folder ", folder.string(), " is empty"));
  }
  return absl::NotFoundError(
      absl::StrCat(text, "; nearest names in ", folder.string(), ": ", absl::StrJoin(names, ", ")));
}

// Appends what one pattern stands for, folders left out.
absl::Status Expand(const std::string& pattern, std::vector<std::string>& files) {
  if (Exists(pattern) && !IsFolder(pattern)) {  // also names with [ or * in them
    files.push_back(pattern);
    return absl::OkStatus();
  }
  glob_t found = {};
  errno = 0;
  const int result = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const int error_number = errno;
  size_t num_files = 0;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    std::string path = found.gl_pathv[i];
    if (IsFolder(path)) continue;
    files.push_back(std::move(path));
    ++num_files;
  }
  ::globfree(&found);
  if (result == GLOB_NOSPACE) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory to expand ", pattern));
  }
  if (result == GLOB_ABORTED) {
    return ErrnoStatus(error_number == 0 ? EIO : error_number, "read folder", pattern);
  }
  return num_files > 0 ? absl::OkStatus() : NothingMatches(pattern);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandFiles(std::span<const std::string> patterns) {
  if (patterns.empty()) return absl::InvalidArgumentError("no file pattern was given");
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) MILLRACE_RETURN_IF_ERROR(Expand(pattern, files));
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace millrace::readers
