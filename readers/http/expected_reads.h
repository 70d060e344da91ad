#ifndef MILLRACE_READERS_HTTP_EXPECTED_READS_H_
#define MILLRACE_READERS_HTTP_EXPECTED_READS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

// Records behind URLs whose turn will come, as the order of a plan says before they are read. Those
// of a group that lie side by side in a file become one range; each range is fetched once, and kept
// until its group is forgotten. So a record costs its own bytes, and neighbours one request.

namespace millrace::readers {

// A file that ranges are fetched of.
class FetchedFile {
 public:
  virtual ~FetchedFile() = default;
  // Begins to fetch all of `out` from `offset`; `done` runs once, on the client's thread, but not
  // if this throws.
  virtual void Fetch(uint64_t offset, std::span<std::byte> out,
                     std::function<void(absl::Status)> done) const = 0;
};

// Thread-safe. Files have to live until all groups with pieces of them are forgotten.
class ExpectedReads {
 public:
  // Bytes between two pieces that are fetched with them, such as the ends of lines.
  static constexpr uint64_t kGapBytes = 16;

  struct Piece {
    const FetchedFile* file = nullptr;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  // No range of several pieces is longer than `range_bytes`.
  explicit ExpectedReads(uint64_t range_bytes) : range_bytes_(range_bytes) {}

  // From now on ranges of at most `bytes` are kept or under way at once, one longer range, and what
  // reads wait for. Others wait until earlier groups are forgotten.
  void SetLimit(uint64_t bytes);
  // Begins to fetch the pieces of a group, which are named in the order in which they will be read.
  // REQUIRES: `group` is above all groups before it.
  void Expect(uint64_t group, std::span<const Piece> pieces);
  // The ranges of the group are not needed any more. Reads under way keep theirs.
  void Forget(uint64_t group);

  // Fills `out` from `offset`, once the bytes have come, and calls `done`: on the client's thread,
  // or before it returns. False if no group has them all.
  bool StartRead(const FetchedFile& file, uint64_t offset, std::span<std::byte> out,
                 std::function<void(absl::Status)> done);
  // Fills `out` if all of it has come.
  bool TryRead(const FetchedFile& file, uint64_t offset, std::span<std::byte> out);

  // Bytes that have come and were not read, of groups that are not forgotten.
  uint64_t unread_bytes() const;

 private:
  // Ranges that are handed to the client at once: more than it has connections, and few, for a
  // request takes as much memory as a short record.
  static constexpr size_t kMostUnderWay = 256;

  // A read that waits for ranges.
  struct Waiter {
    uint64_t offset = 0;
    std::span<std::byte> out;
    std::function<void(absl::Status)> done;
    size_t num_left = 0;  // guarded by mu_: ranges that have not come
    absl::Status status;  // guarded by mu_: the first error
  };
  struct Range {
    const FetchedFile* file = nullptr;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t group = 0;
    size_t first = 0;                    // its first piece in the order of reading
    std::unique_ptr<std::byte[]> bytes;  // null while it waits for room
    bool landed = false;
    uint64_t unread = 0;           // bytes that no read has asked for
    std::vector<uint64_t> begins;  // of its pieces, ascending
    std::vector<bool> read;        // true for a piece that a read has asked for
    std::vector<std::shared_ptr<Waiter>> waiters;

    uint64_t size() const { return end - begin; }
  };
  using RangePtr = std::shared_ptr<Range>;
  using Ranges = std::map<std::pair<const FetchedFile*, uint64_t>, RangePtr>;  // by their begins

  std::vector<RangePtr> Merge(uint64_t group, std::span<const Piece> pieces) const;
  std::vector<RangePtr> FindLocked(const FetchedFile& file, uint64_t begin, uint64_t end) const
      MILLRACE_REQUIRES(mu_);
  static std::vector<RangePtr> FindIn(const Ranges& ranges, const FetchedFile& file, uint64_t begin,
                                      uint64_t end);
  static bool Lacks(const Range& range, uint64_t begin, uint64_t end);
  void CountReadLocked(Range& range, uint64_t begin, uint64_t end) MILLRACE_REQUIRES(mu_);
  void BeginLocked() MILLRACE_REQUIRES(mu_);
  bool FetchLocked(const RangePtr& range) MILLRACE_REQUIRES(mu_);
  void Land(Range& range, const absl::Status& status);
  static void Copy(const Range& range, uint64_t offset, std::span<std::byte> out);

  const uint64_t range_bytes_;
  mutable Mutex mu_;
  uint64_t limit_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t held_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;    // of ranges that have memory
  size_t num_under_way_ MILLRACE_GUARDED_BY(mu_) = 0;   // ranges that are being fetched
  uint64_t unread_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;  // of ranges that have landed
  std::map<uint64_t, Ranges> groups_ MILLRACE_GUARDED_BY(mu_);
  std::deque<RangePtr> waiting_ MILLRACE_GUARDED_BY(mu_);  // for room, in order
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_EXPECTED_READS_H_
