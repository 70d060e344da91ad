#ifndef MILLRACE_READERS_EXPAND_FILES_H_
#define MILLRACE_READERS_EXPAND_FILES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::readers {

// Expands patterns and plain names into the sorted list of files, each of them once. A pattern is a
// glob pattern, may have braces as bash knows them ("{a,b}", "{000..127}"), may be a shard spec
// ("train@8.tfrecord", "train@*"; readers/names/names.h says what these are), a URL, or
// "list:PATH" for a file that has one of all these per line, relative to its own folder. The name
// of a file that exists is that file, whatever characters it has. A URL is not asked for.
//   INVALID_ARGUMENT     no pattern was given, or one stands for too many files
//   NOT_FOUND            a pattern matches nothing; the message shows it, and names near it in its
//                        folder or that there are none; or a shard is missing
//   FAILED_PRECONDITION  "@*" where there are several sets of shards
absl::StatusOr<std::vector<std::string>> ExpandFiles(std::span<const std::string> patterns);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_EXPAND_FILES_H_
