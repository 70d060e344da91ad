#include "readers/block_cache.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace millrace::readers {

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
    std::memcpy(part.data(), slot.block.bytes.get() + at, part.size());
    slot.wanted_number = kNone;
    return true;
  }

  // Reads the block outside the mutex, into the memory of the one it throws out. False also when
  // that one stays.
  template <typename ReadBlock>
  bool Fetch(uint64_t block, size_t at, std::span<std::byte> part, const ReadBlock& read) const {
    Slot& slot = cache_->SlotOf(number_, block);
    Block fetched;
    {
      MutexLock lock(slot.mu);
      const bool again = slot.wanted_file == number_ && slot.wanted_number == block;
      slot.wanted_file = number_;
      slot.wanted_number = block;
      if (slot.block.size != 0 && !again) return false;
      fetched.bytes = std::move(slot.block.bytes);
      slot.block.size = 0;
    }
    if (fetched.bytes == nullptr) {
      fetched.bytes = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
    }
    const uint64_t begin = block * kBlockBytes;
    fetched.file = number_;
    fetched.number = block;
    fetched.size = std::min<uint64_t>(kBlockBytes, size() - begin);
    if (!read(begin, {fetched.bytes.get(), fetched.size})) return false;
    std::memcpy(part.data(), fetched.bytes.get() + at, part.size());
    MutexLock lock(slot.mu);
    slot.block = std::move(fetched);
    return true;
  }

  const std::shared_ptr<BlockCache> cache_;
  const std::shared_ptr<const RandomAccessFile> file_;
  const uint64_t number_;
};

BlockCache::BlockCache(size_t bytes) : slots_(std::max<size_t>(bytes / kBlockBytes, 1)) {}

BlockCache::Slot& BlockCache::SlotOf(uint64_t file, uint64_t block) {
  constexpr uint64_t kFileStride = 7919;  // a prime: files that are read side by side lie apart
  return slots_[(file * kFileStride + block) % slots_.size()];
}

std::shared_ptr<const RandomAccessFile> BlockCache::Wrap(
    std::shared_ptr<const RandomAccessFile> file, uint64_t number) {
  return std::make_shared<CachedFile>(shared_from_this(), std::move(file), number);
}

}  // namespace millrace::readers
