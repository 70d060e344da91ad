#ifndef MILLRACE_COLLECTIVES_WATCH_PROGRESS_BOARD_H_
#define MILLRACE_COLLECTIVES_WATCH_PROGRESS_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/peer_lost.h"

namespace millrace::collectives {

// The part that a rank still takes in the job.
enum class Presence : uint32_t {
  kHere,
  kLeft,
  kKnowsOfLoss,  // it is here, and knows that the job has lost a rank
  kActs,         // the same, and it acts for all ranks
};

// Why a rank was given up.
enum class Cause : uint32_t {
  kEnded,    // its process has ended
  kSilent,   // its process does not run: stopped, or its host hangs
  kStalled,  // it runs, but makes no progress
  kCutOff,   // its host cannot be reached
};

// A rank that was given up, which ends the job.
struct Verdict {
  int rank = 0;
  Cause cause = Cause::kEnded;
};

// The content of a page at one moment.
struct Sighting {
  int64_t step = -1;
  int32_t bucket = -1;
  Phase phase = Phase::kStart;
  Presence presence = Presence::kHere;
  uint64_t beat = 0;  // grows as long as the rank's process runs
};

// One rank's page, in memory that the ranks of a host share. Written by one thread at a time, read
// by all: a counter that is odd during a write tells readers to read again. A page of zeros was
// never written. Every member is lock-free, so that processes may share it and a rank that dies in
// a write leaves no lock behind.
class ProgressPage {
 public:
  void Write(const Sighting& sighting);
  // The newest sighting; a mix of the last two if the writer died within a write.
  Sighting Read() const;

 private:
  static constexpr size_t kWords = 5;

  std::atomic<uint32_t> version_{0};
  std::atomic<int64_t> words_[kWords] = {};
};

// The pages of all ranks of a job and the verdict that ends it, in memory that a host's ranks
// share. Zeros are an empty board.
class ProgressBoard {
 public:
  // Bytes of the board of `num_ranks` ranks.
  static size_t SizeBytes(int num_ranks);
  // Borrows `memory`, 128-byte aligned, SizeBytes(num_ranks) bytes, all zero if no other rank has a
  // board in it yet.
  ProgressBoard(std::byte* memory, int num_ranks);

  int num_ranks() const { return num_ranks_; }
  ProgressPage& page(int rank) { return slots_[rank].page; }
  const ProgressPage& page(int rank) const { return slots_[rank].page; }

  // The first verdict stands; later ones change nothing.
  void Give(const Verdict& verdict);
  std::optional<Verdict> verdict() const;

 private:
  // Apart, so that a rank's writes do not slow another's.
  struct alignas(128) Slot {
    ProgressPage page;
  };
  struct alignas(128) Bench {
    std::atomic<uint64_t> verdict{0};  // (cause << 32) + rank + 1
  };

  const int num_ranks_;
  Bench* const bench_;
  Slot* const slots_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_PROGRESS_BOARD_H_
