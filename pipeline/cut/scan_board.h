#ifndef MILLRACE_PIPELINE_CUT_SCAN_BOARD_H_
#define MILLRACE_PIPELINE_CUT_SCAN_BOARD_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/cut/settler.h"

// The work of pass 1 that is under way, lane by lane. Workers look at records in any order. Their
// findings wait in the lane's reorder queue until the findings before them are there too, and are
// then settled.
//
// A lane that continues from a token first looks again at the records of the rows that were open in
// it: in a shuffle's buffer, in buckets.

namespace millrace::pipeline {

// A stretch of a lane's positions that one worker looks at.
struct ScanBlock {
  Examined found;
  bool reopens = false;  // true if it is of open rows
  bool done = false;     // true if its records were looked at
};

// Positions that a worker is to look at next.
struct ScanClaim {
  size_t lane_index = 0;  // the index of the lane on the board
  uint64_t lane = 0;
  bool reopens = false;   // true if the rows are open ones
  bool discards = false;  // true if the lane is done: nothing is to be looked at
  uint64_t first = 0;     // position; if it reopens, index of the lane's positions to look at again
  uint64_t count = 0;
  std::vector<uint64_t> positions;  // to look at again, ascending: `count` of them
};

// Thread-compatible; the executor's mutex guards it.
class ScanBoard {
 public:
  // Forgets everything and begins where the settler stands. `ends`: of all lanes, positions that
  // they have in all passes.
  void Reset(const Settler& settler, std::span<const uint64_t> ends);
  // Sets other ends, not before those that were given last.
  void SetEnds(std::span<const uint64_t> ends);

  // True if a lane wants more and has fewer than `ahead` positions under way.
  bool MayClaim(uint64_t ahead) const { return FindLane(ahead) != lanes_.size(); }
  // The next positions, at most `rows`, of the lane that is furthest behind.
  // REQUIRES: MayClaim(ahead).
  ScanClaim Claim(uint64_t rows, uint64_t ahead);
  // A place in the lane's queue for the part [first, end) of a claim, in order. Lives until it is
  // done and TakeHeads takes it.
  ScanBlock* Append(const ScanClaim& claim, uint64_t first, uint64_t end);

  // The findings that the settler is told next, from the heads of the lanes' queues.
  struct Heads {
    std::vector<Examined> reopened;  // the complete findings for Settler::Reopen, before `found`
    std::vector<Examined> found;     // the findings for Settler::Settle, in order within each lane
    bool empty() const { return reopened.empty() && found.empty(); }
  };
  Heads TakeHeads();
  bool HasHeads() const;
  // Takes in which lanes the settler wants more of.
  void Update(const Settler& settler);

  // Returns the first position of the pass that some lane wants and does not have; `lanes` and
  // `block` as of LanePosition.
  std::optional<uint64_t> FirstMissing(uint64_t lanes, uint64_t block) const;

  // The number of blocks that are not settled.
  int64_t num_blocks() const { return num_blocks_; }

 private:
  struct Lane {
    uint64_t lane = 0;
    uint64_t next = 0;  // the next position to claim
    uint64_t end = 0;
    uint64_t under_way = 0;  // positions claimed and not settled
    bool wants_more = true;  // true if the settler wants more findings
    bool is_done = false;    // true if its positions are only claimed to be discarded
    std::deque<std::unique_ptr<ScanBlock>> blocks;
    std::vector<uint64_t> reopen;  // positions to look at again, ascending
    size_t reopen_next = 0;        // the index of the next of them to claim
    size_t reopen_done = 0;
    Examined reopened;  // the findings about them so far
  };
  size_t FindLane(uint64_t ahead) const;
  static void Gather(Lane& lane, const Examined& found);

  std::deque<Lane> lanes_;
  int64_t num_blocks_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_SCAN_BOARD_H_
