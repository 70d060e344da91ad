#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/local_path.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "readers/expand_files.h"
#include "readers/names/names.h"

namespace millrace::readers {
namespace {

constexpr size_t kMaxNamesCompared = 10000;  // a folder of shards is smaller; the message can wait
constexpr size_t kNamesShown = 3;

bool IsFolder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool IsFile(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
}

// At most kMaxNamesCompared names of `folder`, sorted.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  const std::filesystem::directory_iterator end;
  while (!error && entry != end && names.size() < kMaxNamesCompared) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), "list", folder.string());
  std::sort(names.begin(), names.end());
  return names;
}

// "*.tfrecord" for a pattern that ends so; "" when its ending is a pattern too.
std::string EndingOf(const std::filesystem::path& pattern) {
  const std::string extension = pattern.extension().string();
  const bool plain = !extension.empty() && extension.find_first_of("*?[") == std::string::npos;
  return plain ? "*" + extension : "";
}

// Tells which names `folder`, which is not empty, has instead of the file `name`.
std::string WhatThereIs(const std::string& folder, std::vector<std::string> names,
                        const std::filesystem::path& name) {
  const bool hidden = name.string().starts_with('.');  // a glob sees no others
  std::erase_if(names, [&](const std::string& other) { return other.starts_with('.') != hidden; });
  const std::vector<std::string> nearest = NearestNames(name.string(), names, kNamesShown);
  if (!nearest.empty()) {
    return absl::StrCat("; nearest names in ", folder, ": ", absl::StrJoin(nearest, ", "));
  }
  const std::string ending = EndingOf(name);
  if (ending.empty()) return absl::StrCat("; ", folder, " holds no such name");
  std::erase_if(names,
                [&](const std::string& other) { return !other.ends_with(ending.substr(1)); });
  if (names.empty()) return absl::StrCat("; ", folder, " holds no ", ending);
  return absl::StrCat("; ", folder, " holds ", names.size(), " ", ending,
                      ", but none of a name "
                      "near that: ",
                      names[0], names.size() > 1 ? ", ..." : "");
}

absl::Status NothingMatches(const std::string& pattern) {
  MILLRACE_RETURN_IF_ERROR(internal::WhyUnseen(pattern));
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
  absl::StatusOr<std::vector<std::string>> names = NamesIn(folder);
  if (!names.ok()) return absl::NotFoundError(absl::StrCat(text, "; ", names.status().message()));
  if (names->empty()) {
    return absl::NotFoundError(absl::StrCat(text, ": the folder ", folder.string(), " is empty"));
  }
  return absl::NotFoundError(
      absl::StrCat(text, WhatThereIs(folder.string(), *std::move(names), path.filename())));
}

// The error of a folder that this thread's glob could not read to its end, else 0. glob itself
// takes such an error for the end, and would leave out the names behind it.
thread_local int unread_error = 0;
// Whether this thread's ExpandFiles is to end; null outside of one.
thread_local const Cancels* cancels_of_call = nullptr;

class CallCancels {
 public:
  explicit CallCancels(const Cancels& cancels) { cancels_of_call = &cancels; }
  CallCancels(const CallCancels&) = delete;
  CallCancels& operator=(const CallCancels&) = delete;
  ~CallCancels() { cancels_of_call = nullptr; }
};

absl::Status CheckGoesOn() {
  if (cancels_of_call == nullptr) return absl::OkStatus();
  return millrace::CheckGoesOn(*cancels_of_call, "listing the files was cancelled");
}

dirent* ReadEntry(void* folder) {
  if (!CheckGoesOn().ok()) {
    unread_error = ECANCELED;
    return nullptr;
  }
  errno = 0;
  dirent* const entry = ::readdir(static_cast<DIR*>(folder));
  if (entry == nullptr && errno != 0) unread_error = errno;
  return entry;
}

// The names that match, in any order.
absl::StatusOr<std::vector<std::string>> Glob(const std::string& pattern) {
  glob_t found = {};
  found.gl_opendir = [](const char* name) -> void* { return ::opendir(name); };
  found.gl_readdir = ReadEntry;
  found.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
  found.gl_stat = ::stat;
  found.gl_lstat = ::lstat;
  unread_error = 0;
  errno = 0;
  const int result =
      ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT | GLOB_ALTDIRFUNC, nullptr, &found);
  const int error_number = errno;
  std::vector<std::string> names;
  if (result == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOSPACE) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory to expand ", pattern));
  }
  if (unread_error != 0) return ErrnoStatus(unread_error, "read folder", pattern);
  if (result == GLOB_ABORTED && error_number != ENOENT) {
    return ErrnoStatus(error_number == 0 ? EIO : error_number, "read folder", pattern);
  }
  return names;
}

// The names that match and are folders. Their parents' entries say which these are on most file
// systems; asking for each name by itself took longer than to find them all.
absl::StatusOr<std::set<std::string>> GlobFolders(const std::string& pattern) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Glob(pattern + "/"));
  std::set<std::string> folders;
  for (const std::string& name : names) {
    if (name.ends_with('/')) folders.insert(name.substr(0, name.size() - 1));
  }
  return folders;
}

// Of a plain part behind one with wildcards ("data/*/train.tar") glob does not say that it may not
// look at it: a folder that is closed would be left out.
absl::Status CheckPlainParts(const std::string& pattern) {
  constexpr const char* kWildcards = "*?[";
  size_t slash = pattern.find('/', std::min(pattern.find_first_of(kWildcards), pattern.size()));
  while (slash != std::string::npos) {
    const size_t end = std::min(pattern.find('/', slash + 1), pattern.size());
    const std::string part = pattern.substr(slash + 1, end - slash - 1);
    if (!part.empty() && part.find_first_of(kWildcards) == std::string::npos) {
      MILLRACE_ASSIGN_OR_RETURN(const auto folders, Glob(pattern.substr(0, slash + 1)));
      for (const std::string& folder : folders) {
        MILLRACE_RETURN_IF_ERROR(internal::WhyUnseen(folder + part));
      }
    }
    slash = pattern.find('/', slash + 1);
  }
  return absl::OkStatus();
}

// Appends what a name, a shard spec or a glob pattern stands for, folders left out.
absl::Status ExpandOne(const std::string& pattern, std::vector<std::string>& files) {
  MILLRACE_RETURN_IF_ERROR(CheckGoesOn());
  if (IsFile(pattern)) {  // also names with [ or * in them
    files.push_back(pattern);
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(auto shards, internal::ExpandShards(pattern));
  if (shards.has_value()) {
    std::ranges::move(*shards, std::back_inserter(files));
    return absl::OkStatus();
  }
  if (!SchemeOf(pattern).empty()) {  // taken as it is, since no folder of it can be listed
    files.push_back(pattern);
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> names, Glob(pattern));
  MILLRACE_RETURN_IF_ERROR(CheckPlainParts(pattern));
  MILLRACE_ASSIGN_OR_RETURN(const std::set<std::string> folders, GlobFolders(pattern));
  std::erase_if(names, [&](const std::string& name) {
    return name.ends_with('/') || folders.contains(name);
  });
  if (names.empty()) return NothingMatches(pattern);
  std::ranges::move(names, std::back_inserter(files));
  return absl::OkStatus();
}

absl::Status ExpandPattern(const std::string& pattern, std::vector<std::string>& files) {
  if (IsFile(pattern)) {  // also names with braces in them
    files.push_back(pattern);
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, internal::ExpandBraces(pattern));
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string path, LocalPathOrUrl(name));
    const absl::Status status = ExpandOne(path, files);
    if (!status.ok()) return name == pattern ? status : Annotate(status, pattern);
  }
  return absl::OkStatus();
}

absl::Status ExpandList(const std::string& path, std::vector<std::string>& files) {
  MILLRACE_ASSIGN_OR_RETURN(const auto names, internal::ReadNameList(path));
  for (const internal::ListedName& listed : names) {
    MILLRACE_RETURN_IF_ERROR(Annotate(ExpandPattern(listed.name, files), listed.where));
  }
  return absl::OkStatus();
}

}  // namespace

namespace internal {

absl::Status WhyUnseen(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 || errno == ENOENT || errno == ENOTDIR) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "stat", path);
}

}  // namespace internal

absl::StatusOr<std::vector<std::string>> ExpandFiles(std::span<const std::string> patterns,
                                                     const Cancels& cancels) {
  if (patterns.empty()) return absl::InvalidArgumentError("no file pattern was given");
  const CallCancels call(cancels);
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    const bool is_list = pattern.starts_with(internal::kListPrefix) && !IsFile(pattern);
    MILLRACE_RETURN_IF_ERROR(is_list
                                 ? ExpandList(pattern.substr(internal::kListPrefix.size()), files)
                                 : ExpandPattern(pattern, files));
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace millrace::readers
