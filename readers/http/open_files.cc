#include "readers/http/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "base/atomic_file.h"
#include "readers/inflate/byte_source.h"
#include "readers/local_file.h"
#include "readers/record_source.h"

namespace millrace::readers {
namespace {

class ReopenedFile : public RandomAccessFile {
 public:
  ReopenedFile(std::shared_ptr<OpenFiles> files, size_t slot, std::string path, uint64_t size)
      : files_(std::move(files)), slot_(slot), path_(std::move(path)), size_(size) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto file, files_->Get(slot_, path_));
    return file->ReadAt(offset, out);
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const auto file = files_->GetIfOpen(slot_);  // opening may wait
    return file != nullptr && file->TryReadAt(offset, out);
  }
  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

 private:
  const std::shared_ptr<OpenFiles> files_;
  const size_t slot_;
  const std::string path_;
  const uint64_t size_;
};

class Slice : public RandomAccessFile {
 public:
  Slice(std::shared_ptr<const RandomAccessFile> whole, uint64_t begin, uint64_t size,
        std::string path)
      : whole_(std::move(whole)), begin_(begin), size_(size), path_(std::move(path)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    return whole_->ReadAt(begin_ + offset,
                          out.first(std::min<uint64_t>(out.size(), size_ - offset)));
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const bool inside = offset <= size_ && out.size() <= size_ - offset;
    return inside && whole_->TryReadAt(begin_ + offset, out);
  }
  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

 private:
  const std::shared_ptr<const RandomAccessFile> whole_;
  const uint64_t begin_;
  const uint64_t size_;
  const std::string path_;
};

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

std::shared_ptr<const RandomAccessFile> MakeSlice(std::shared_ptr<const RandomAccessFile> whole,
                                                  uint64_t begin, uint64_t size, std::string path) {
  return std::make_shared<Slice>(std::move(whole), begin, size, std::move(path));
}

size_t OpenFiles::DefaultMaxOpen() {
  constexpr size_t kFewest = 16;
  constexpr size_t kMost = 1 << 16;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewest;
  return std::clamp<size_t>(std::min<rlim_t>(limit.rlim_cur, 2 * kMost) / 2, kFewest, kMost);
}

size_t OpenFiles::AddSlot() {
  MutexLock lock(mu_);
  slots_.emplace_back();
  return slots_.size() - 1;
}

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenFiles::Open(const std::string& path) {
  const size_t slot = AddSlot();
  MILLRACE_ASSIGN_OR_RETURN(const auto file, Get(slot, path));
  return std::make_shared<ReopenedFile>(shared_from_this(), slot, path, file->size());
}

std::shared_ptr<const RandomAccessFile> OpenFiles::OpenLater(const std::string& path,
                                                             uint64_t size) {
  return std::make_shared<ReopenedFile>(shared_from_this(), AddSlot(), path, size);
}

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenFiles::Get(size_t slot,
                                                                       const std::string& path) {
  if (auto file = GetIfOpen(slot)) return file;
  // Opening may wait for a server, and others need not wait with it.
  MILLRACE_ASSIGN_OR_RETURN(auto opened, OpenWithAccess(path, access_));
  MutexLock lock(mu_);
  slots_[slot].last_used = ++clock_;
  if (slots_[slot].file == nullptr) {
    if (num_open_ >= max_open_) CloseOldest();
    slots_[slot].file = std::move(opened);
    ++num_open_;
  }
  return slots_[slot].file;
}

std::shared_ptr<const RandomAccessFile> OpenFiles::GetIfOpen(size_t slot) {
  MutexLock lock(mu_);
  if (slots_[slot].file != nullptr) slots_[slot].last_used = ++clock_;
  return slots_[slot].file;
}

void OpenFiles::CloseOldest() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.file == nullptr) continue;
    if (oldest == nullptr || slot.last_used < oldest->last_used) oldest = &slot;
  }
  if (oldest == nullptr) return;
  oldest->file.reset();  // a read under way keeps it open a little longer
  --num_open_;
}

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
