#include "pipeline/run/read_buffer.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

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

// The most buffers that a thread keeps: none is smaller than a grain.
constexpr size_t kMostSpares = kMostSpareBytes / kGrainBytes;

// The buffers that a thread has freed, the last one at the end. It takes no memory, since a buffer
// is freed also where there is none. That is why it is trivial: a thread_local object with a
// destructor is registered with memory when a thread uses it first.
class Spares {
 public:
  // False if the buffer is not kept, since nothing would free it at the end of the thread.
  bool Keep(std::byte* memory, size_t capacity) {
    if (!is_freed_at_end_ && !FreeAtEndOfThread()) return false;
    MakeRoom(capacity);
    buffers_[count_++] = {memory, capacity};
    bytes_ += capacity;
    return true;
  }

  // Returns the latest buffer that is large enough, or nullptr. A mapped one serves only runs that
  // would map their own: the budget counts the run's bytes, and the pages of a mapped buffer would
  // be many times as many.
  ReadBuffer Take(size_t bytes) {
    for (size_t i = count_; i > 0; --i) {
      const Buffer buffer = buffers_[i - 1];
      if (buffer.capacity < bytes) continue;
      if (buffer.capacity >= kMappedBytes && !IsMapped(bytes)) continue;
      Remove(i - 1);
      return {buffer.memory, {buffer.capacity}};
    }
    return nullptr;
  }

  // The thread ends.
  void FreeAll() {
    is_freed_at_end_ = false;
    MakeRoom(kMostSpareBytes);
  }

 private:
  struct Buffer {
    std::byte* memory;
    size_t capacity;
  };

  bool FreeAtEndOfThread();
  // Frees the oldest until `bytes` more may be kept.
  void MakeRoom(size_t bytes) {
    while (count_ > 0 && (bytes_ + bytes > kMostSpareBytes || count_ == kMostSpares)) {
      Free(buffers_[0].memory, buffers_[0].capacity);
      Remove(0);
    }
  }
  void Remove(size_t at) {
    bytes_ -= buffers_[at].capacity;
    std::copy(buffers_ + at + 1, buffers_ + count_, buffers_ + at);
    --count_;
  }

  Buffer buffers_[kMostSpares];
  size_t count_;
  size_t bytes_;
  bool is_freed_at_end_;
};
constinit thread_local Spares spares = {};

// The key whose destructor frees the buffers of a thread at its end. Of a thread's first 32 keys
// glibc keeps the values without memory.
class EndOfThread {
 public:
  EndOfThread() { has_key_ = pthread_key_create(&key_, &Run) == 0; }
  ~EndOfThread() {
    if (has_key_.exchange(false)) pthread_key_delete(key_);
  }
  bool IsWatched() const { return has_key_ && pthread_setspecific(key_, &spares) == 0; }

 private:
  static void Run(void* of_thread) { static_cast<Spares*>(of_thread)->FreeAll(); }

  pthread_key_t key_ = 0;
  std::atomic<bool> has_key_ = false;  // the main thread -> any
};
EndOfThread end_of_thread;

bool Spares::FreeAtEndOfThread() {
  is_freed_at_end_ = end_of_thread.IsWatched();
  return is_freed_at_end_;
}

}  // namespace

void FreeReadBuffer::operator()(std::byte* memory) const {
  if (capacity > kMostKeptBytes || !spares.Keep(memory, capacity)) Free(memory, capacity);
}

ReadBuffer MakeReadBuffer(size_t bytes) {
  if (ReadBuffer spare = spares.Take(bytes)) return spare;
  const size_t grain = IsMapped(bytes) ? kMappedGrainBytes : kGrainBytes;
  const size_t capacity = (std::max<size_t>(bytes, 1) + grain - 1) / grain * grain;
  if (capacity < kMappedBytes) return {new (std::nothrow) std::byte[capacity], {capacity}};
  void* const memory =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), {capacity}};
}

}  // namespace millrace::pipeline
