#ifndef MILLRACE_READERS_OPEN_FILE_H_
#define MILLRACE_READERS_OPEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"

namespace millrace::readers {

// How local files are read. The bytes are the same for every value.
enum class FileIo {
  kPread,   // through the page cache
  kMmap,    // the page cache itself, mapped; pages are fetched by the thread that reads
  kDirect,  // past the page cache, where the file system can (O_DIRECT)
};
struct FileAccess {
  FileIo io = FileIo::kPread;
  // True to drop from the page cache the bytes that a reader in order has passed.
  bool drop_behind = false;
};

// Opens a local file, or the one behind an http or https URL, for ReadAt. `access` is for local
// files; a way that the system does not offer falls back to kPread.
//   INVALID_ARGUMENT                   `path` is not a regular file
//   NOT_FOUND, PERMISSION_DENIED, ...  it cannot be opened
absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenFile(const std::string& path,
                                                                 const FileAccess& access = {});

// Reads the whole of `out` at `offset`. A short read is DATA_LOSS.
absl::Status ReadFully(const RandomAccessFile& file, uint64_t offset, std::span<std::byte> out);

// Reads a whole local file. One that is not regular (a pipe) is read to its end; a named pipe
// without a writer is empty.
//   INVALID_ARGUMENT     it holds more than `max_bytes`
//   NOT_FOUND, other     it cannot be opened or read
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t max_bytes);

// The same of a file of text, without its byte order mark.
//   INVALID_ARGUMENT     also: it is not UTF-8, but UTF-16, a Git LFS pointer or an HTML page
absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_OPEN_FILE_H_
