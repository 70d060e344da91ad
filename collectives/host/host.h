#ifndef MILLRACE_COLLECTIVES_HOST_HOST_H_
#define MILLRACE_COLLECTIVES_HOST_HOST_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/host/flag.h"

namespace millrace::collectives {

// A rank's page for the other ranks of its host.
struct RankBoard {
  SharedFlag published;  // buckets whose gradients it has filled, since the start
  SharedFlag done;       // buckets whose share it has summed and stored (the last: or a peer)
  SharedFlag gathered;   // steps whose shards it has given to all
  // Buckets of the steps whose last share is claimed, by this rank or, for it, by a peer, which
  // then raises `done`; above them, from bit 32 on, the rank that claimed it. Any rank -> all,
  // acquire/release.
  alignas(128) std::atomic<uint64_t> claimed;
  alignas(128) std::atomic<uint32_t> gone;  // owner -> peers, release/acquire: 1 when it has left
  // Plain data before `gone`: why, where another rank is to blame or this one says more. Text
  // empty: nothing.
  int32_t lost_rank;
  int32_t lost_bucket;
  int64_t lost_step;
  uint32_t lost_phase;
  std::array<char, 484> why;  // cut, where it is longer
  // Plain data: of a step, ordered by the flags.
  alignas(128) int64_t rows;      // before the first `published` of the step: its valid rows
  alignas(128) int64_t all_rows;  // before the last `done` of the step: of all ranks
  double sum_of_squares;          // and over its shares
};

// A number that the ranks of one host share with no other: a hash of the boot id and the identity
// of /dev/shm, so neither equal host names nor containers with a /dev/shm of their own mislead. 0:
// unknown.
uint64_t HostIdentity();

struct SharedHostResult;

// The memory of the ranks of one host, mapped by each of them: a board and a copy of the gradients
// per rank. A rank alone has the same, in private memory. Destroying it tells the others that this
// rank has left. The boards synchronise themselves; whose turn the copies are, the boards say.
class SharedHost {
 public:
  static constexpr size_t kMaxCopyBytes = size_t{1} << 52;

  // Maps copies of `copy_bytes` for the ranks of `local`, which are on one host. Collective. The
  // memory has no name any more when it returns, on any outcome, so a rank that is killed leaves
  // nothing behind, even within Make as long as another one lives. Where the
  // host's shared memory does not do, for any rank, no rank has a mapping and all have the same
  // reason. `folder` is /dev/shm but in tests. The memory is zero.
  //   other than OK  a collective call failed
  static absl::StatusOr<SharedHostResult> Make(Communicator& local, size_t copy_bytes,
                                               const std::string& folder = "/dev/shm");

  // Makes the memory of a rank alone. Null: no memory.
  static std::unique_ptr<SharedHost> MakePrivate(size_t copy_bytes);

  ~SharedHost();
  SharedHost(const SharedHost&) = delete;
  SharedHost& operator=(const SharedHost&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  RankBoard& board(int rank) const;
  // Tells the others that this rank raises no flag any more, and why. The first call counts. The
  // destructor does it too.
  void Leave(const absl::Status& reason);
  // The reason that rank `rank` gave for leaving; OK: it has not left.
  absl::Status LeftBecause(int rank) const;
  // The memory stays mapped until the process ends, for somebody may still write to it.
  void KeepMapped() { mapped_ = nullptr; }
  std::byte* copy(int rank) const;  // aligned to a page, from 2 MiB on to 2 MiB

 private:
  friend class SharedHostMaker;
  SharedHost(int rank, int size, size_t copy_bytes);
  // The offset of a rank's copy in the mapping; for rank `size`, the end of the last one.
  size_t CopyBegin(int rank) const {
    return boards_bytes_ + copy_stride_ * static_cast<size_t>(rank);
  }
  size_t total_bytes() const { return CopyBegin(size_); }

  // Constant after construction.
  const int rank_;
  const int size_;
  const size_t copy_stride_;
  const size_t boards_bytes_;
  std::byte* memory_ = nullptr;
  void* mapped_ = nullptr;  // the memory to unmap: `memory_` is aligned within
  size_t mapped_bytes_ = 0;
  bool agreed_ = false;  // true if all ranks have reserved their pages
};

struct SharedHostResult {
  std::unique_ptr<SharedHost> host;  // null: not shared
  std::string refused;               // the reason why it is not shared
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_HOST_HOST_H_
