#include <utility>

#include "absl/strings/str_cat.h"
#include "base/local_path.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/names/names.h"
#include "readers/open_file.h"

namespace millrace::readers::internal {
namespace {

constexpr uint64_t kMaxListBytes = uint64_t{256} << 20;

std::string_view Trim(std::string_view line) {
  constexpr std::string_view kBlanks = " \t";
  const size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

// `name` as it is seen from the folder of `list`.
std::string FromFolderOf(const std::string& list, std::string_view name) {
  if (name.starts_with('/') || !SchemeOf(name).empty()) return std::string(name);
  return list.substr(0, list.rfind('/') + 1).append(name);  // npos + 1 is 0
}

}  // namespace

absl::StatusOr<std::vector<ListedName>> ReadNameList(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxListBytes));
  std::vector<ListedName> names;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view name = Trim(TakeLine(rest));
    if (name.empty() || name.starts_with('#')) continue;
    std::string where = absl::StrCat(path, ":", number);
    if (name.starts_with(kListPrefix)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": a list of files cannot name another list"));
    }
    names.push_back({FromFolderOf(path, name), std::move(where)});
  }
  if (names.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": names no file"));
  return names;
}

}  // namespace millrace::readers::internal
