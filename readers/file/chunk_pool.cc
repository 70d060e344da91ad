#include "readers/file/chunk_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace millrace::readers {

std::shared_ptr<Chunk> ChunkPool::Take(size_t min_bytes) {
  std::unique_ptr<Chunk> chunk;
  if (min_bytes <= chunk_bytes_) {
    MutexLock lock(mu_);
    if (!free_.empty()) {
      chunk = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (chunk == nullptr) {
    chunk = std::make_unique<Chunk>();
    chunk->capacity = std::max(min_bytes, chunk_bytes_);
    chunk->bytes.reset(new (std::nothrow) std::byte[chunk->capacity]);
    if (chunk->bytes == nullptr) return nullptr;
  }
  return {chunk.release(), [pool = weak_from_this()](Chunk* used) {
            std::unique_ptr<Chunk> owned(used);
            if (const auto alive = pool.lock()) alive->GiveBack(std::move(owned));
          }};
}

void ChunkPool::GiveBack(std::unique_ptr<Chunk> chunk) {
  if (chunk->capacity != chunk_bytes_) return;
  MutexLock lock(mu_);
  if (free_.size() < kMaxFree) free_.push_back(std::move(chunk));
}

}  // namespace millrace::readers
