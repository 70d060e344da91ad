#ifndef MILLRACE_BASE_LOCAL_PATH_H_
#define MILLRACE_BASE_LOCAL_PATH_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// Names of files as people write them: paths, and URLs.

namespace millrace {

// The scheme of a URL ("https" of "https://host/file", RFC 3986, 3.1); "" if `name` has none, or
// one of a single letter.
std::string_view SchemeOf(std::string_view name);

// Returns the path of a local file: `name` itself, or that of a file:// URL, where %XX stands for a
// byte.
//   INVALID_ARGUMENT  a file:// URL of another host, of no absolute path, or with a wrong %XX
//   UNIMPLEMENTED     a URL of another scheme
absl::StatusOr<std::string> LocalPath(const std::string& name);

// The same for files that are also read over HTTP: http:// and https:// URLs stay as they are.
absl::StatusOr<std::string> LocalPathOrUrl(const std::string& name);

}  // namespace millrace

#endif  // MILLRACE_BASE_LOCAL_PATH_H_
