#ifndef MILLRACE_READERS_FILE_BLOCK_CACHE_H_
#define MILLRACE_READERS_FILE_BLOCK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/io.h"
#include "base/mutex.h"

// Short records in an order that jumps about within a window (shuffle) would cost one system call
// each, 0.5 to 2 us for 100 bytes, although all bytes of the window are asked for soon. The cache
// fetches whole blocks and copies records out of them. A slot holds one block; neighbouring blocks
// lie in neighbouring slots, so a window that fits never throws out its own blocks, and no list has
// to be kept in order of use. A block takes the place of another only when it is asked for twice
// and that one not at all meanwhile: a straggler behind the window, or an order that jumps farther
// than the cache reaches, costs a read of the record and no more. Each slot has its own mutex, held
// for a copy, never for a read.
//
// Nothing depends on it: a block that cannot be read as a whole makes the record be read alone.

namespace millrace::readers {

// Thread-safe.
class BlockCache : public std::enable_shared_from_this<BlockCache> {
 public:
  static constexpr size_t kBlockBytes = 64 << 10;
  static constexpr size_t kLargestRead = 4 << 10;  // longer reads go past the cache

  // Keeps at most `bytes`, in whole blocks, at least one; none when there is no memory.
  explicit BlockCache(size_t bytes);

  // The most memory of the blocks that it keeps.
  size_t memory_bytes() const { return memory_ == nullptr ? 0 : slots_.size() * kBlockBytes; }

  // Returns `file` read through this cache, which it keeps alive. `number` tells the files of one
  // cache apart.
  std::shared_ptr<const RandomAccessFile> Wrap(std::shared_ptr<const RandomAccessFile> file,
                                               uint64_t number);

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  class CachedFile;
  struct Block {
    uint64_t file = 0;
    uint64_t number = 0;
    size_t size = 0;  // 0: nothing is kept
  };
  struct Slot {
    Mutex mu;
    Block block MILLRACE_GUARDED_BY(mu);
    // The slot's part of memory_; null while someone reads into it.
    std::byte* bytes MILLRACE_GUARDED_BY(mu) = nullptr;
    // The block that was asked for last, if it was not `block`.
    uint64_t wanted_file MILLRACE_GUARDED_BY(mu) = 0;
    uint64_t wanted_number MILLRACE_GUARDED_BY(mu) = kNone;
  };

  Slot& SlotOf(uint64_t file, uint64_t block);

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  // The memory of all slots: in huge pages where the system has them, since a copy out of so much
  // memory otherwise waits for address translation twice.
  const std::unique_ptr<std::byte, Free> memory_;
  std::vector<Slot> slots_;  // constant but for what the slots' mutexes guard
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_BLOCK_CACHE_H_
