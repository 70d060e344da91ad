#include "pipeline/run/read_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <vector>

namespace millrace::pipeline {
namespace {

// Buffers from this size on are mapped. Runs of small records have smaller ones.
constexpr size_t kMappedBytes = size_t{512} << 10;
// The largest buffer that is kept. A run of photographs has about 2 MiB.
constexpr size_t kMostKeptBytes = size_t{3} << 20;
// The most that a thread keeps: about its part of all runs under way.
constexpr size_t kMostSpareBytes = size_t{4} << 20;
// Sizes are rounded up, so that the next run, which differs by a record or so, fits too.
constexpr size_t kGrainBytes = size_t{64} << 10;
constexpr size_t kMappedGrainBytes = size_t{1} << 20;  // pages that are not used take no memory

// True if a buffer of so many bytes is mapped.
bool IsMapped(size_t bytes) { return bytes > kMappedBytes - kGrainBytes; }

void Free(std::byte* memory, size_t capacity) {
  if (capacity < kMappedBytes) {
    delete[] memory;
  } else {
    munmap(memory, capacity);
  }
}

// True once this thread's spare buffers were destroyed. Static objects free buffers after that.
thread_local bool gone = false;

// The buffers that a thread has freed, the last one at the end.
class Spares {
 public:
  ~Spares() {
    gone = true;
    MakeRoom(kMostSpareBytes);
  }

  void Keep(std::byte* memory, size_t capacity) {
    MakeRoom(capacity);
    buffers_.push_back({memory, capacity});
    bytes_ += capacity;
  }

  // Returns the latest buffer that is large enough, or nullptr. A mapped one serves only runs that
  // would map their own: the budget counts the run's bytes, and the pages of a mapped buffer would
  // be many times as many.
  ReadBuffer Take(size_t bytes) {
    for (size_t i = buffers_.size(); i > 0; --i) {
      const Buffer buffer = buffers_[i - 1];
      if (buffer.capacity < bytes) continue;
      if (buffer.capacity >= kMappedBytes && !IsMapped(bytes)) continue;
      buffers_.erase(buffers_.begin() + static_cast<ptrdiff_t>(i - 1));
      bytes_ -= buffer.capacity;
      return {buffer.memory, {buffer.capacity}};
    }
    return nullptr;
  }

 private:
  struct Buffer {
    std::byte* memory;
    size_t capacity;
  };

  // Frees the oldest until `bytes` more may be kept.
  void MakeRoom(size_t bytes) {
    while (!buffers_.empty() && bytes_ + bytes > kMostSpareBytes) {
      Free(buffers_.front().memory, buffers_.front().capacity);
      bytes_ -= buffers_.front().capacity;
      buffers_.erase(buffers_.begin());
    }
  }

  std::vector<Buffer> buffers_;
  size_t bytes_ = 0;
};
thread_local Spares spares;

}  // namespace

void FreeReadBuffer::operator()(std::byte* memory) const {
  if (capacity > kMostKeptBytes || gone) return Free(memory, capacity);
  spares.Keep(memory, capacity);
}

ReadBuffer MakeReadBuffer(size_t bytes) {
  if (!gone) {
    if (ReadBuffer spare = spares.Take(bytes)) return spare;
  }
  const size_t grain = IsMapped(bytes) ? kMappedGrainBytes : kGrainBytes;
  const size_t capacity = (std::max<size_t>(bytes, 1) + grain - 1) / grain * grain;
  if (capacity < kMappedBytes) return {new (std::nothrow) std::byte[capacity], {capacity}};
  void* const memory =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), {capacity}};
}

}  // namespace millrace::pipeline
