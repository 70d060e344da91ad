#ifndef MILLRACE_READERS_CONTAINER_INDEX_MEMORY_H_
#define MILLRACE_READERS_CONTAINER_INDEX_MEMORY_H_

#include <cstddef>
#include <span>
#include <vector>

namespace millrace::readers {

// Memory for indexes that come and go together. With one allocation for each, half of the time to
// open ten million records went into page faults of 4 KiB; here they are of 2 MiB where the system
// has such pages. Thread-compatible: threads at once would clear the same large page twice, so each
// has one of its own.
class IndexMemory {
 public:
  IndexMemory() = default;
  ~IndexMemory();
  IndexMemory(const IndexMemory&) = delete;
  IndexMemory& operator=(const IndexMemory&) = delete;

  // `bytes` bytes of no value yet, aligned to 8, which live as long as this; a null span when the
  // system has no more. REQUIRES: bytes > 0.
  std::span<std::byte> Take(size_t bytes);
  // The same, but they are only lent, until the next Peek or Take. A Take of k bytes fewer, k a
  // multiple of 8, gives what lies behind the first k of them, as it was left there.
  std::span<std::byte> Peek(size_t bytes);

 private:
  bool Map(size_t bytes);

  std::vector<std::span<std::byte>> chunks_;  // mapped
  std::span<std::byte> left_;                 // rest of the last chunk, which is taken from its end
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_INDEX_MEMORY_H_
