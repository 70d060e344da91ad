#ifndef MILLRACE_PIPELINE_EXECUTOR_PASS_ONE_H_
#define MILLRACE_PIPELINE_EXECUTOR_PASS_ONE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "pipeline/cut/empty_stream.h"
#include "pipeline/cut/scan_board.h"
#include "pipeline/cut/settler.h"
#include "pipeline/executor/closed_work.h"
#include "pipeline/executor/scan_run.h"

// Pass 1 of a plan with a cut: which positions are looked at, what was found and is not settled,
// and the batches that the settler has closed and that are not opened. Records are looked at in any
// order and settled in the order of their lanes, by one worker at a time.
//
// The findings about a stretch of positions wait on the board, a few words a row. The read buffers
// are free again before that, so pass 1 never holds memory that pass 2 waits for.

namespace millrace::pipeline {

// Thread-compatible; the executor's mutex guards it, but for the settler, which a worker has alone
// from BeginSettling to the end of its last turn.
class PassOne {
 public:
  // Borrows the budget for its lifetime.
  explicit PassOne(MemoryBudget& budget) : budget_(budget) {}

  // Begins where the settler stands. `lane_ends`: the positions of every lane, in all passes.
  void Begin(std::unique_ptr<Settler> settler, std::span<const uint64_t> lane_ends,
             EmptyStreamWatch empty_stream);
  // Drops the closed batches; no worker settles.
  void Clear();

  // Closed batches, in the order of the stream.
  bool has_closed() const { return !closed_.empty(); }
  // REQUIRES: has_closed().
  const ClosedWork& next_closed() const { return *closed_.front(); }
  std::unique_ptr<ClosedWork> TakeClosed();
  // True once the settler will close no further batch.
  bool settled() const { return settled_; }
  // The number of closed batches that may be made now: as many as the ring will need, but one at a
  // time while the budget has no room.
  size_t ClosedRoom(int ring_length) const;

  // Looking at records. How far a lane is looked at ahead of the settler: for the batches that are
  // wanted, by the fraction of rows that was kept lately; and at least `least` positions.
  uint64_t ScanAhead(uint64_t rows_per_lane, size_t room, uint64_t least) const;
  // True if positions are to be looked at now, with fewer than `most_blocks` under way.
  bool MayClaim(uint64_t ahead, int ring_length, int64_t most_blocks) const {
    return !settled_ && !more_closed_ && ClosedRoom(ring_length) > 0 &&
           board_.num_blocks() < most_blocks && !empty_stream_.found() && board_.MayClaim(ahead);
  }
  // The next positions. REQUIRES: MayClaim.
  ScanClaim Claim(uint64_t rows, uint64_t ahead) { return board_.Claim(rows, ahead); }
  // Puts the runs of a claim on the board, in order.
  void Append(const ScanClaim& claim, std::span<ScanRun* const> runs);
  // The records of `run` were looked at.
  void PutFindings(const ScanRun& run, Examined found);

  // Settling.
  bool MaySettle(int ring_length) const {
    return !settling_ && !settled_ &&
           (board_.HasHeads() || (more_closed_ && ClosedRoom(ring_length) > 0) || end_is_due_);
  }
  void BeginSettling() { settling_ = true; }
  void EndSettling() { settling_ = false; }
  bool settling() const { return settling_; }
  // The settler's next work.
  struct Turn {
    Settler* settler = nullptr;
    ScanBoard::Heads heads;
    size_t room = 0;          // the number of closed batches that there is room for
    bool end_is_due = false;  // true if the settler is to be told of the input's end
    bool idle = true;         // true if there is nothing to do
  };
  Turn TakeTurn(size_t room);
  // Takes in the batches that were closed in a turn. `more`: true if there may be more of them.
  void EndTurn(std::vector<std::unique_ptr<ClosedWork>> closed, bool more);

  // An input that grows: positions that every lane has so far, not fewer than before.
  void SetEnds(std::span<const uint64_t> lane_ends) { board_.SetEnds(lane_ends); }
  // The input has ended, and the settler is to be told.
  void NoteEnd() { end_is_due_ = true; }
  // True if rows of some lane came to the end of the input. Known once it is settled.
  bool reached_end() const { return reached_end_; }
  // The first position that some lane lacks, as ScanBoard::FirstMissing.
  std::optional<uint64_t> FirstMissing(uint64_t lanes, uint64_t block) const {
    return board_.FirstMissing(lanes, block);
  }

  // True while something is under way, waits, or could be begun.
  bool HasWork() const {
    return settling_ || more_closed_ || !closed_.empty() || board_.num_blocks() > 0 ||
           board_.MayClaim(1);
  }
  // True if it has not ended, and nothing would ever go on.
  bool IsStuck() const {
    return !settled_ && !more_closed_ && closed_.empty() && board_.num_blocks() == 0 &&
           !empty_stream_.found() && !end_is_due_ && !board_.MayClaim(1);
  }
  // Notices an endless input of which nothing is left to come.
  const EmptyStreamWatch& empty_stream() const { return empty_stream_; }

 private:
  MemoryBudget& budget_;
  ScanBoard board_;
  EmptyStreamWatch empty_stream_;
  std::unique_ptr<Settler> settler_;
  std::deque<std::unique_ptr<ClosedWork>> closed_;
  bool settling_ = false;       // true while a worker has the settler
  bool more_closed_ = false;    // true if the settler may have more closed batches
  bool settled_ = false;        // true once the settler will close no further batch
  bool end_is_due_ = false;     // true if the settler is to be told of the input's end
  bool reached_end_ = false;    // true if Settler::reached_end was, after the last turn
  uint64_t examined_rows_ = 0;  // the rows that were looked at lately
  uint64_t kept_rows_ = 0;      // the rows of these that were kept
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_PASS_ONE_H_
