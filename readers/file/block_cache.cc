#include "readers/file/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace millrace::readers {
namespace {

// Whole huge pages, which take memory only as they are written to. Null when there is none.
std::byte* NewMemory(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory = std::aligned_alloc(kHugePage, size);
  if (memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);  // a hint
  return static_cast<std::byte*>(memory);
}

}  // namespace

class BlockCache::CachedFile : public RandomAccessFile {
 public:
  CachedFile(std::shared_ptr<BlockCache> cache, std::shared_ptr<const RandomAccessFile> file,
             uint64_t number)
      : cache_(std::move(cache)), file_(std::move(file)), number_(number) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const bool cached = Copy(offset, out, [this](uint64_t begin, std::span<std::byte> bytes) {
      const absl::StatusOr<size_t> got = file_->ReadAt(begin, bytes);
      return got.ok() && *got == bytes.size();
    });
    return cached ? out.size() : file_->ReadAt(offset, out);
  }
  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const bool cached = Copy(offset, out, [this](uint64_t begin, std::span<std::byte> bytes) {
      return file_->TryReadAt(begin, bytes);
    });
    return cached || file_->TryReadAt(offset, out);
  }
  uint64_t size() const override { return file_->size(); }
  const std::string& path() const override { return file_->path(); }

 private:
  // Copies the bytes from their blocks, fetched with `read` where they are not kept. False when
  // that fails, or when they are not for the cache.
  template <typename ReadBlock>
  bool Copy(uint64_t offset, std::span<std::byte> out, const ReadBlock& read) const {
    if (out.size() > kLargestRead || offset >= size() || out.size() > size() - offset) return false;
    while (!out.empty()) {
      const uint64_t block = offset / kBlockBytes;
      const size_t at = offset % kBlockBytes;
      const std::span<std::byte> part = out.first(std::min(out.size(), kBlockBytes - at));
      if (!CopyKept(block, at, part) && !Fetch(block, at, part, read)) return false;
      offset += part.size();
      out = out.subspan(part.size());
    }
    return true;
  }

  bool CopyKept(uint64_t block, size_t at, std::span<std::byte> part) const {
    Slot& slot = cache_->SlotOf(number_, block);
    MutexLock lock(slot.mu);
    const bool other = slot.block.file != number_ || slot.block.number != block;
    if (other || slot.block.size < at + part.size()) return false;
    std::memcpy(part.data(), slot.bytes + at, part.size());
    slot.wanted_number = kNone;
    return true;
  }

  // Reads the block outside the mutex, over the one it throws out. False also when that one stays,
  // or somebody else reads there.
  template <typename ReadBlock>
  bool Fetch(uint64_t block, size_t at, std::span<std::byte> part, const ReadBlock& read) const {
    Slot& slot = cache_->SlotOf(number_, block);
    std::byte* bytes = nullptr;
    {
      MutexLock lock(slot.mu);
      const bool again = slot.wanted_file == number_ && slot.wanted_number == block;
      slot.wanted_file = number_;
      slot.wanted_number = block;
      if (slot.bytes == nullptr || (slot.block.size != 0 && !again)) return false;
      bytes = std::exchange(slot.bytes, nullptr);
      slot.block.size = 0;
    }
    const uint64_t begin = block * kBlockBytes;
    const size_t block_bytes = std::min<uint64_t>(kBlockBytes, size() - begin);
    const bool good = read(begin, {bytes, block_bytes});
    if (good) std::memcpy(part.data(), bytes + at, part.size());
    MutexLock lock(slot.mu);
    slot.bytes = bytes;
    if (good) slot.block = {.file = number_, .number = block, .size = block_bytes};
    return good;
  }

  const std::shared_ptr<BlockCache> cache_;
  const std::shared_ptr<const RandomAccessFile> file_;
  const uint64_t number_;
};

BlockCache::BlockCache(size_t bytes)
    : memory_(NewMemory(std::max(bytes, kBlockBytes))),
      slots_(std::max<size_t>(bytes / kBlockBytes, 1)) {
  if (memory_ == nullptr) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    MutexLock lock(slots_[i].mu);
    slots_[i].bytes = memory_.get() + i * kBlockBytes;
  }
}

BlockCache::Slot& BlockCache::SlotOf(uint64_t file, uint64_t block) {
  constexpr uint64_t kFileStride = 7919;  // a prime: files that are read side by side lie apart
  return slots_[(file * kFileStride + block) % slots_.size()];
}

std::shared_ptr<const RandomAccessFile> BlockCache::Wrap(
    std::shared_ptr<const RandomAccessFile> file, uint64_t number) {
  return std::make_shared<CachedFile>(shared_from_this(), std::move(file), number);
}

}  // namespace millrace::readers
