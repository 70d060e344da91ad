#include "readers/inflate/spool.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT: mkostemp is a GNU function
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/record_error.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "readers/file/local_file.h"
#include "readers/file/slice.h"

namespace millrace::readers {
namespace {

absl::StatusOr<UniqueFd> OpenUnlinked(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  // File systems without O_TMPFILE: make a name and take it away.
  std::string name = folder + "/millrace-XXXXXX";
  fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "mkostemp", name);
  ::unlink(name.c_str());
  return fd;
}

}  // namespace

absl::Status InflateSpool::Prepare() {
  if (file_ != nullptr) return absl::OkStatus();
  const char* folder = std::getenv("TMPDIR");
  folder_ = folder != nullptr && folder[0] == '/' ? folder : "/tmp";
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd fd, OpenUnlinked(folder_));
  fd_ = fd.get();
  file_ = MakeLocalFile(std::move(fd), folder_ + "/(inflated shards)",
                        std::numeric_limits<uint64_t>::max());
  return absl::OkStatus();
}

absl::StatusOr<InflateSpool::Inflated> InflateSpool::Add(std::unique_ptr<ByteSource> source) {
  constexpr size_t kBufferBytes = 1 << 20;
  MILLRACE_RETURN_IF_ERROR(Prepare());
  const std::string path = source->path();
  std::vector<std::byte> buffer(kBufferBytes);
  const uint64_t begin = size_;
  Inflated inflated;
  while (true) {
    const auto got = source->Read(buffer);
    if (!got.ok() && !GetRecordError(got.status()).has_value()) return got.status();
    if (!got.ok()) inflated.damage = got.status();
    if (!got.ok() || *got == 0) break;
    const absl::Status written = WriteFully(fd_, {buffer.data(), *got}, folder_, {});
    if (!written.ok()) {
      return Annotate(written, absl::StrCat("inflating ", path,
                                            " to a temporary file (set TMPDIR to a folder with "
                                            "room)"));
    }
    size_ += *got;
  }
  inflated.lost.assign(source->lost().begin(), source->lost().end());
  inflated.file = MakeSlice(file_, begin, size_ - begin, path);
  return inflated;
}

}  // namespace millrace::readers
