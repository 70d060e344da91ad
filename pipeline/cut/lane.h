#ifndef MILLRACE_PIPELINE_CUT_LANE_H_
#define MILLRACE_PIPELINE_CUT_LANE_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/cut/settler.h"
#include "pipeline/cut/state.h"
#include "pipeline/plan/physical.h"

// One lane of a cut: the findings that are not used yet, and the steps that rows pass through on
// demand. The batcher pulls; nothing moves on its own. So when a batch closes, every lane has used
// exactly the rows that the batch needed, however far it was examined, and the lane's state is that
// of the batch.

namespace millrace::pipeline {

// A row behind pass 1.
struct LaneRow {
  RowOrigin origin;
  int32_t passed_filters = 0;
  absl::Status error;
};

// Rows with their extents. Thread-compatible.
class RowBuffer {
 public:
  explicit RowBuffer(size_t extents_per_row) : extents_per_row_(extents_per_row) {}

  size_t size() const { return rows_.size(); }
  const LaneRow& row(size_t i) const { return rows_[i]; }
  const int64_t* extents(size_t i) const { return extents_.data() + i * extents_per_row_; }
  // Takes memory for so many rows, once: a vector that grows leaves as much again behind.
  void Reserve(uint64_t rows);
  // `extents` may be nullptr: all 0.
  void Append(LaneRow row, const int64_t* extents);
  void Replace(size_t i, LaneRow row, const int64_t* extents);
  // Moves the last row out.
  void TakeLast(LaneRow& row, std::vector<int64_t>& extents);
  void Swap(size_t i, size_t j);
  // Row i becomes the one that was row order(i), in place: cycle by cycle of the permutation.
  template <typename Order>
  void Reorder(const Order& order) {
    std::vector<bool> done(size());
    for (size_t first = 0; first < size(); ++first) {
      for (size_t i = first; !done[i];) {
        done[i] = true;
        const auto from = static_cast<size_t>(order(i));
        if (from != first) Swap(i, from);
        i = from;
      }
    }
  }
  void Clear();

  // Positions as distances back from `from`. Read checks that they lie in [first, from] and that
  // there are at most `max_rows`; the rows are blank but for their origin.
  void Write(StateWriter& writer, uint64_t from) const;
  void Read(StateReader& reader, uint64_t first, uint64_t from, uint64_t max_rows);

 private:
  size_t extents_per_row_;
  std::vector<LaneRow> rows_;
  std::vector<int64_t> extents_;
};

// The part of the plan that all lanes of a cut share.
struct LanePlan {
  struct Step {
    SettleStep::Kind kind = SettleStep::Kind::kTake;
    int after_filters = 0;
    uint64_t count = 0;  // the count over all lanes
    uint64_t key = 0;
  };
  std::vector<Step> steps;
  int num_filters = 0;
  bool splits_records = false;  // true if a record may be several rows
  size_t extents_per_row = 0;
  uint64_t seed = 0;
  uint64_t num_lanes = 1;
  bool grows = false;  // true if the input grows, as SettlerOptions::grows
};

// Thread-compatible.
class Lane {
 public:
  enum class Outcome { kRow, kNeedsMore, kEnd };

  // Borrows the plan. `size`: input elements in one pass, kInfinite without end.
  Lane(const LanePlan& plan, uint64_t lane, uint64_t size);

  // Forgets the rest of the present pass.
  void BeginPass(uint64_t pass);
  // Begins the pass behind its first `used` positions.
  void BeginWithin(uint64_t pass, uint64_t used);
  // Uses the next positions of the pass, at most `rows`, without findings: each is a row that
  // another rank looks at. Returns their number, which is smaller where the pass ends.
  uint64_t Count(uint64_t rows);
  // Nothing more is wanted, ever.
  void Finish();
  // For an input that grows: as Settler::EndInput and reached_end.
  void EndInput(uint64_t size);
  bool reached_end() const { return reached_end_; }
  // Appends the records that the lane's steps dropped, for Settler::TakeDropped.
  void TakeDropped(std::vector<uint64_t>& records);
  // True if no more rows of the input are wanted in this pass: it has ended, or a take is complete.
  bool IsDone() const;

  // The same as Settler::NextPosition, WantsMore, Settle.
  uint64_t next_position() const { return frontier_.position; }
  bool WantsMore(uint64_t max_rows, bool may_pass_again) const;
  void Add(Examined block);

  // Returns the next row that passes every step and filter, in `row` and `extents()`.
  //   kEnd  none is left in this pass, until BeginPass
  Outcome Next(LaneRow& row);
  // The extents of the last row.
  const int64_t* extents() const { return extents_; }

  // The end of the rows used so far, for the state: the position behind them, or the position of
  // the record that was split and is not used up.
  uint64_t used_position() const { return used_.position; }
  uint64_t first_position() const { return first_; }
  // The number of positions of the pass that were used.
  uint64_t num_used() const { return used_.position - first_; }
  void Write(StateWriter& writer) const;
  // Called instead of BeginPass.
  void Read(StateReader& reader, uint64_t pass);
  // The buffers of the shuffles.
  std::vector<RowBuffer*> OpenBuffers();

 private:
  struct Place {
    uint64_t position = 0;
    uint64_t sub_index = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Pending {
    Examined block;
    size_t next = 0;  // the next row
  };
  struct StepState {
    uint64_t limit = 0;     // this lane's part: rows taken, skipped or buffered
    uint64_t count = 0;     // rows taken, skipped or given out
    uint64_t key = 0;       // the key of a shuffle in this pass
    bool draining = false;  // true if the shuffle has all rows of the pass and gives them out
    RowBuffer buffer;       // the rows of a shuffle; draining: the next row last
    std::vector<int64_t> extents;
  };
  static Place PlaceOf(const Examined::Row& row) {
    return {row.origin.position, row.origin.id.sub_index};
  }
  void SetPass(uint64_t pass);
  bool has_one_pass() const;
  void Drop(const RowOrigin& origin);
  void DropPendingBefore(uint64_t position);
  void EndPass();
  Outcome PullSource(LaneRow& row);
  Outcome PullStep(size_t num_steps, LaneRow& row);
  Outcome PullInput(size_t step, LaneRow& row);
  Outcome PullShuffled(size_t step, LaneRow& row);
  void StartDrain(StepState& state);

  const LanePlan* plan_;
  uint64_t lane_;
  uint64_t size_;
  uint64_t first_ = 0;           // the first position of the pass
  uint64_t end_ = 0;             // the end of the pass; kInfinite without end
  Place frontier_;               // the place up to which rows were examined
  Place used_;                   // the place up to which rows were pulled
  bool ended_ = false;           // true if no more rows are wanted in this pass
  bool reached_end_ = false;     // true if the rows came to the end of the input
  std::deque<Pending> pending_;  // blocks to pull from; the first may be used up
  uint64_t pending_rows_ = 0;
  std::vector<StepState> steps_;
  const int64_t* extents_ = nullptr;
  std::vector<uint64_t> dropped_;  // the records dropped, of an input that grows
};

// Returns lane `lane`'s part of `count` things: count (lane + 1) / L - count lane / L, each
// rounded down.
uint64_t PartOfLane(uint64_t count, uint64_t lane, uint64_t num_lanes);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_LANE_H_
