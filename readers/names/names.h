#ifndef MILLRACE_READERS_NAMES_NAMES_H_
#define MILLRACE_READERS_NAMES_NAMES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The ways of ExpandFiles to name many files in few words.

namespace millrace::readers::internal {

inline constexpr size_t kMaxNames = 100'000;               // names of one pattern
inline constexpr size_t kMaxNameBytes = size_t{64} << 20;  // bytes of all of them together

// The error for which `path` cannot be looked at; OK where it can, and where it is not there.
absl::Status WhyUnseen(const std::string& path);

// Expands braces as bash does: "{a,b}" and "{08..12}" (numbers, as wide as the wider of the two
// where one begins with a zero), in each other and as often as wanted. Other braces stand for
// themselves, and so does what follows a backslash. Without braces: the pattern.
//   INVALID_ARGUMENT  over kMaxNames names, or braces nested too deeply
absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view pattern);

// Expands a shard spec, of a file name that ends with "@N" or "@N.ext": PREFIX@N.ext stands for
// PREFIX-00000-of-0000N.ext and so on, N of them. "@*" is the one N that there is on disk. nullopt:
// it is none.
//   NOT_FOUND            one of them does not exist (a URL is not asked for), or "@*" finds none
//   FAILED_PRECONDITION  "@*" finds shards of several N
//   INVALID_ARGUMENT     N is 0 or above kMaxNames, or "@*" in a URL
//   other                whether one of them exists cannot be seen (PERMISSION_DENIED, ...)
absl::StatusOr<std::optional<std::vector<std::string>>> ExpandShards(const std::string& spec);

// A line of a list of files.
struct ListedName {
  std::string name;   // with the folder of the list, if it is relative
  std::string where;  // FILE:LINE
};

// Reads the list `path`: a name, pattern or URL per line; blanks around it do not count, nor do
// empty lines and lines that begin with '#'.
//   INVALID_ARGUMENT  it names nothing, or another list
//   other             it cannot be read
absl::StatusOr<std::vector<ListedName>> ReadNameList(const std::string& path);

// "list:PATH" names a list.
inline constexpr std::string_view kListPrefix = "list:";

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_NAMES_NAMES_H_
