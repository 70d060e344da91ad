#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/dali_index.h"

// Which index is of which file.

namespace millrace::readers {
namespace {

// "a" of "a.idx".
std::string_view NameOfIndexed(std::string_view index) {
  if (index.ends_with(".idx")) index.remove_suffix(4);
  return index;
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Without what follows the last dot of its base name.
std::string_view WithoutExtension(std::string_view path) {
  const size_t base = path.size() - BaseName(path).size();
  const size_t dot = path.rfind('.');
  return dot == path.npos || dot <= base ? path : path.substr(0, dot);
}

// Indexes by the name of what they are of.
class Names {
 public:
  explicit Names(const std::vector<std::string>& indexes) {
    for (size_t i = 0; i < indexes.size(); ++i) {
      const std::string_view path = NameOfIndexed(indexes[i]);
      by_path_[path].push_back(i);
      by_base_[BaseName(path)].push_back(i);
    }
  }

  // That of a file; nullopt: none says so, or several.
  std::optional<size_t> Of(std::string_view file) const {
    const std::string_view stem = WithoutExtension(file);
    for (const auto& [map, name] :
         {std::pair(&by_path_, file), std::pair(&by_path_, stem),
          std::pair(&by_base_, BaseName(file)), std::pair(&by_base_, BaseName(stem))}) {
      const auto found = map->find(name);
      if (found == map->end()) continue;
      if (found->second.size() > 1) return std::nullopt;
      return found->second.front();
    }
    return std::nullopt;
  }

 private:
  using Map = std::map<std::string_view, std::vector<size_t>>;
  Map by_path_;
  Map by_base_;
};

bool IsPermutation(std::vector<std::optional<size_t>> places) {
  std::ranges::sort(places);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] != i) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PairDaliIndexes(const std::vector<std::string>& files,
                                                         std::vector<std::string> indexes) {
  if (indexes.size() != files.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(indexes.size(), " index files for ", files.size(), " files"));
  }
  std::ranges::sort(indexes, {}, NameOfIndexed);
  const Names names(indexes);
  std::vector<std::optional<size_t>> places;
  for (const std::string& file : files) places.push_back(names.Of(file));
  if (IsPermutation(places)) {
    std::vector<std::string> paired;
    for (const std::optional<size_t> place : places) paired.push_back(std::move(indexes[*place]));
    return paired;
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (!places[i].has_value() || *places[i] == i) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(indexes[*places[i]], ": by its name the index of ", files[i],
                     ", by its place that of ", files[*places[i]], "; name each FILE.idx"));
  }
  return indexes;
}

}  // namespace millrace::readers
