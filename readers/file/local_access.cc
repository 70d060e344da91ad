#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/file/local_file.h"
#include "readers/file/mapping.h"
#include "readers/open_file.h"

// Other ways to the bytes of a local file than pread through the page cache. All of them fill the
// same buffers with the same bytes; which is faster depends on the disk and on the other users of
// memory.

namespace millrace::readers {
namespace {

// Copies out of a mapping. The pages are asked for first, on the I/O thread that reads: where the
// disk fails, or the file has become shorter, that is an error, while a touch would be a SIGBUS. Of
// a file that is cut between the two, within some microseconds, it still is one.
class MappedFile : public RandomAccessFile {
 public:
  MappedFile(std::shared_ptr<const RandomAccessFile> file, std::shared_ptr<const Mapping> mapping)
      : file_(std::move(file)), mapping_(std::move(mapping)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size() || out.empty()) return size_t{0};
    const size_t count = std::min<uint64_t>(out.size(), size() - offset);
    // The file says what is wrong.
    if (!mapping_->Populate(offset, count)) return file_->ReadAt(offset, out);
    std::memcpy(out.data(), mapping_->bytes() + offset, count);
    return count;
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return file_->TryReadAt(offset, out);
  }
  std::shared_ptr<const std::byte> Borrow(uint64_t offset, size_t count) const override {
    if (!mapping_->Populate(offset, count)) return nullptr;
    return {mapping_, mapping_->bytes() + offset};
  }
  uint64_t size() const override { return file_->size(); }
  const std::string& path() const override { return file_->path(); }

 private:
  const std::shared_ptr<const RandomAccessFile> file_;
  const std::shared_ptr<const Mapping> mapping_;
};

// Reads past the page cache, through aligned memory.
class DirectFile : public RandomAccessFile {
 public:
  explicit DirectFile(std::shared_ptr<const RandomAccessFile> file) : file_(std::move(file)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(
        kAlignment,
        std::min(kMostPerRead, out.size() / kAlignment * kAlignment + 2 * kAlignment))));
    if (buffer == nullptr) return absl::ResourceExhaustedError("no memory to read directly");
    size_t done = 0;
    while (done < out.size() && offset + done < size()) {
      const uint64_t begin = (offset + done) / kAlignment * kAlignment;
      const size_t ahead = offset + done - begin;
      const size_t want = std::min(kMostPerRead, RoundUp(ahead + out.size() - done));
      MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(begin, {buffer.get(), want}));
      if (got <= ahead) break;  // it has become shorter
      const size_t count = std::min(got - ahead, out.size() - done);
      std::memcpy(out.data() + done, buffer.get() + ahead, count);
      done += count;
    }
    return done;
  }
  uint64_t size() const override { return file_->size(); }
  const std::string& path() const override { return file_->path(); }

 private:
  static constexpr size_t kAlignment = 4096;  // enough for every disk there is
  static constexpr size_t kMostPerRead = size_t{1} << 20;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Buffer = std::unique_ptr<std::byte, Free>;

  static size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  const std::shared_ptr<const RandomAccessFile> file_;
};

// Takes the bytes behind a reader that goes on in order out of the page cache, so that a data set
// that is read once does not push out bytes that others need.
class DropBehindFile : public RandomAccessFile {
 public:
  DropBehindFile(std::shared_ptr<const RandomAccessFile> file, int fd)
      : file_(std::move(file)), fd_(fd) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, out));
    Drop(offset + got);
    return got;
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (!file_->TryReadAt(offset, out)) return false;
    Drop(offset + out.size());
    return true;
  }
  uint64_t size() const override { return file_->size(); }
  const std::string& path() const override { return file_->path(); }

 private:
  // Reads that are under way side by side lie closer together.
  static constexpr uint64_t kKeptBytes = uint64_t{8} << 20;

  void Drop(uint64_t end) const {
    uint64_t dropped = dropped_.load(std::memory_order_relaxed);
    if (end < kKeptBytes && dropped > 2 * kKeptBytes) {  // from the front again
      dropped_.compare_exchange_strong(dropped, 0, std::memory_order_relaxed);
      return;
    }
    if (end < dropped + 2 * kKeptBytes) return;
    const uint64_t until = end - kKeptBytes;
    if (!dropped_.compare_exchange_strong(dropped, until, std::memory_order_relaxed)) return;
    ::posix_fadvise(fd_, static_cast<off_t>(dropped), static_cast<off_t>(until - dropped),
                    POSIX_FADV_DONTNEED);  // a hint
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  const int fd_;                              // file_'s
  mutable std::atomic<uint64_t> dropped_{0};  // up to here; readers -> readers, relaxed: a hint
};

}  // namespace

std::shared_ptr<const RandomAccessFile> WithAccess(UniqueFd fd, std::string path, uint64_t size,
                                                   const FileAccess& access) {
  const int number = fd.get();
  const bool direct = access.io == FileIo::kDirect;
  // Not every file system has it, and without it reads are only slower.
  const bool is_direct = direct && ::fcntl(number, F_SETFL, O_DIRECT) == 0;
  auto file = MakeLocalFile(std::move(fd), std::move(path), size, {}, {},
                            /*leads=*/access.io == FileIo::kPread);
  if (is_direct) return std::make_shared<DirectFile>(std::move(file));
  if (access.drop_behind) file = std::make_shared<DropBehindFile>(std::move(file), number);
  if (access.io != FileIo::kMmap) return file;
  auto mapping = Mapping::Make(number, size);
  if (mapping == nullptr) return file;
  return std::make_shared<MappedFile>(std::move(file), std::move(mapping));
}

}  // namespace millrace::readers
