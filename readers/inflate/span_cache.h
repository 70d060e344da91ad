#ifndef MILLRACE_READERS_INFLATE_SPAN_CACHE_H_
#define MILLRACE_READERS_INFLATE_SPAN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "readers/file/chunk_pool.h"
#include "readers/inflate/span_inflate.h"

// Inflated spans of the compressed files of one source. Threads that want different spans inflate
// them side by side; those that want the same one wait for the first. In an order that goes forward
// a thread that would wait inflates one of the next spans instead, since these will be wanted too.
// So the threads that read in order share the work without a thread of the cache's own, and an
// order that jumps wastes nothing.

namespace millrace::readers {

// The memory that one thread needs to inflate.
struct SpanWorkspace {
  SpanInflater inflater;
  std::vector<std::byte> in;
};

// A file that is made of spans. Thread-safe.
class SpannedFile {
 public:
  virtual ~SpannedFile() = default;
  virtual uint64_t number() const = 0;  // SpanCache::NewFile
  virtual size_t num_spans() const = 0;
  virtual size_t span_bytes(size_t span) const = 0;
  // Inflates a span to the front of `out`. `before` has the span before it, or is null.
  virtual absl::Status Inflate(size_t span, const Chunk* before, SpanWorkspace& workspace,
                               std::span<std::byte> out) const = 0;
};

// Thread-safe.
class SpanCache {
 public:
  using Bytes = std::shared_ptr<const Chunk>;

  static constexpr size_t kLeastBytes = 16 << 20;

  // Keeps at most `max_bytes` (at least kLeastBytes) and what threads hold and inflate just now.
  explicit SpanCache(size_t max_bytes);

  // A number that no other file of this cache has.
  uint64_t NewFile();
  // May be called while it is used. With `drop_behind` what lies behind reads that go through a
  // file from span to span is not kept, so that the same few buffers, which are still in the
  // processor's cache, are used again (12 % faster than with 64 MiB of them in turn).
  void SetLimits(size_t max_bytes, bool drop_behind);

  // The bytes of a span, inflated by the caller or another thread; blocks.
  //   the errors of file.Inflate, RESOURCE_EXHAUSTED without memory
  absl::StatusOr<Bytes> Get(const SpannedFile& file, size_t span);
  // Null when it is not there; does not block.
  Bytes Find(const SpannedFile& file, size_t span);

 private:
  using Key = std::pair<uint64_t, size_t>;  // file, span
  struct Entry {
    Bytes bytes;  // null: being inflated
    size_t num_bytes = 0;
    uint64_t last_used = 0;
    bool forward = false;  // true if the span before it was there, or it is the first
  };

  // How spans of a file were asked for.
  struct Progress {
    size_t last = 0;   // inflated
    size_t steps = 0;  // forward, one after the other
  };

  absl::StatusOr<Bytes> Inflate(const SpannedFile& file, size_t span) MILLRACE_REQUIRES(mu_);
  absl::StatusOr<Bytes> InflateUnlocked(const SpannedFile& file, size_t span, const Bytes& before,
                                        SpanWorkspace& workspace) MILLRACE_EXCLUDES(mu_);
  bool FindAhead(const SpannedFile& file, size_t span, size_t& ahead) MILLRACE_REQUIRES(mu_);
  void MakeRoom(size_t num_bytes) MILLRACE_REQUIRES(mu_);
  bool GoesForward(const Key& key) MILLRACE_REQUIRES(mu_);
  void DropBehind(const Key& key) MILLRACE_REQUIRES(mu_);
  Bytes FindLocked(const Key& key) MILLRACE_REQUIRES(mu_);

  const std::shared_ptr<ChunkPool> pool_;  // synchronises itself
  Mutex mu_;
  CondVar changed_;
  std::map<Key, Entry> entries_ MILLRACE_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<SpanWorkspace>> workspaces_ MILLRACE_GUARDED_BY(mu_);
  size_t max_bytes_ MILLRACE_GUARDED_BY(mu_);
  bool drop_behind_ MILLRACE_GUARDED_BY(mu_) = false;  // true as SetLimits says
  size_t num_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t clock_ MILLRACE_GUARDED_BY(mu_) = 0;
  std::vector<Progress> files_ MILLRACE_GUARDED_BY(mu_);  // by number
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_INFLATE_SPAN_CACHE_H_
