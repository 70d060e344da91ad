#ifndef MILLRACE_READERS_EXPAND_FILES_H_
#define MILLRACE_READERS_EXPAND_FILES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancels.h"

namespace millrace::readers {

// Expands patterns and plain names into the sorted list of files, each of them once. A pattern is
//   - the name of an existing file, of any characters;
//   - a glob pattern;
//   - a pattern with braces as bash knows them ("{a,b}", "{000..127}");
//   - a shard spec ("train@8.tfrecord", "train@*"; see readers/names/names.h);
//   - a file:// URL, which stands for its path;
//   - an http:// or https:// URL, which is not looked up here;
//   - "list:PATH", a file with one of these per line, relative to the file's own folder.
//   INVALID_ARGUMENT     no pattern was given, or one stands for too many files
//   NOT_FOUND            a pattern matches nothing; the message shows it, and names near it in its
//                        folder or that there are none; or a shard is missing
//   FAILED_PRECONDITION  "@*" where there are several sets of shards
//   UNIMPLEMENTED        a URL of another scheme (s3, gs, hdfs, ...)
//   CANCELLED            `cancels` returned true
//   other                a name cannot be looked at or a folder listed (PERMISSION_DENIED, ...)
absl::StatusOr<std::vector<std::string>> ExpandFiles(std::span<const std::string> patterns,
                                                     const Cancels& cancels = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_EXPAND_FILES_H_
