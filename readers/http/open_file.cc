#include "readers/open_file.h"

#include "readers/file/local_file.h"
#include "readers/http/file.h"
#include "readers/http_options.h"

// The one door that opens a path or a URL.

namespace millrace::readers {

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenFile(const std::string& path,
                                                                 const FileAccess& access) {
  return IsUrl(path) ? OpenUrl(path) : OpenLocalFile(path, access);
}

}  // namespace millrace::readers
