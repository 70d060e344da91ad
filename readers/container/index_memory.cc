#include "readers/container/index_memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace millrace::readers {
namespace {

// The first chunk has pages of the usual size, so that a few small shards take no more than they
// need, and what a large page has too much is less than what is in use. Of a chunk, pages that are
// not touched take no memory.
constexpr size_t kFirstChunk = size_t{2} << 20;
constexpr size_t kNextChunks = size_t{32} << 20;
constexpr size_t kAlignment = 8;

}  // namespace

IndexMemory::~IndexMemory() {
  for (const std::span<std::byte> chunk : chunks_) ::munmap(chunk.data(), chunk.size());
}

std::span<std::byte> IndexMemory::Take(size_t bytes) {
  const std::span<std::byte> taken = Peek(bytes);
  if (!taken.empty()) left_ = {left_.data(), taken.data()};
  return taken;
}

std::span<std::byte> IndexMemory::Peek(size_t bytes) {
  const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (padded < bytes) return {};
  if (padded > left_.size() && !Map(padded)) return {};
  return left_.last(padded).first(bytes);
}

bool IndexMemory::Map(size_t bytes) {
  const bool first = chunks_.empty() && bytes <= kFirstChunk;
  const size_t size = std::max(bytes, first ? kFirstChunk : kNextChunks);
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  if (!first) ::madvise(mapped, size, MADV_HUGEPAGE);  // without it only slower
  left_ = {static_cast<std::byte*>(mapped), size};
  chunks_.push_back(left_);
  return true;
}

}  // namespace millrace::readers
