#ifndef MILLRACE_READERS_FILE_CHUNK_POOL_H_
#define MILLRACE_READERS_FILE_CHUNK_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace millrace::readers {

// One read buffer; uninitialised when fresh.
struct Chunk {
  std::unique_ptr<std::byte[]> bytes;
  size_t capacity = 0;
};

// Read buffers of one size, taken back when the last record that points into them is dropped, on
// any thread. Chunks may outlive the pool. Thread-safe.
class ChunkPool : public std::enable_shared_from_this<ChunkPool> {
 public:
  explicit ChunkPool(size_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  // Returns a chunk of max(min_bytes, chunk_bytes) bytes, or null when there is no memory for it.
  // Only chunks of the usual size are kept for reuse.
  std::shared_ptr<Chunk> Take(size_t min_bytes);

 private:
  static constexpr size_t kMaxFree = 4;

  void GiveBack(std::unique_ptr<Chunk> chunk);

  const size_t chunk_bytes_;
  Mutex mu_;
  std::vector<std::unique_ptr<Chunk>> free_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_CHUNK_POOL_H_
