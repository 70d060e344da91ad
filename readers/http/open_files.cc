#include "readers/http/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/status.h"

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

}  // namespace

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
  MILLRACE_ASSIGN_OR_RETURN(auto opened, OpenFile(path, access_));
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

}  // namespace millrace::readers
