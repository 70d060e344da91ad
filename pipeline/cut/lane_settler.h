#ifndef MILLRACE_PIPELINE_CUT_LANE_SETTLER_H_
#define MILLRACE_PIPELINE_CUT_LANE_SETTLER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/cut/batch_counter.h"
#include "pipeline/cut/lane.h"
#include "pipeline/cut/settler.h"

// The settler: lanes, the batcher over them, and the steps over whole batches. At most two closed
// batches wait, since a batch says whether the next one begins another epoch; the batcher pulls no
// row beyond that.

namespace millrace::pipeline {

class LaneSettler final : public Settler {
 public:
  // The same as Settler::Make. A settler that failed Init is not used.
  LaneSettler(const PhysicalPlan& plan, SettlerOptions options, BatchCounter counter);
  absl::Status Init();

  absl::Status Restore(std::string_view state) override;
  std::vector<uint64_t> lanes() const override;
  std::vector<RowOrigin> OpenRows(uint64_t lane) const override;
  absl::Status Reopen(uint64_t lane, const Examined& rows) override;
  uint64_t NextPosition(uint64_t lane) const override;
  bool WantsMore(uint64_t lane) const override;
  void Settle(Examined block) override;
  std::optional<ClosedBatch> Take() override;
  bool ended() const override { return ended_ && closed_.empty(); }
  void EndInput(const std::vector<uint64_t>& lane_sizes) override;
  bool reached_end() const override;
  bool LaneIsDone(uint64_t lane) const override;
  std::vector<uint64_t> TakeDropped() override;

 private:
  // A lane, and its rows for the open batch.
  struct BatchLane {
    Lane lane;
    bool own = false;                  // true if this rank fills its rows
    std::vector<RowOrigin> open_rows;  // the open rows between Restore and Reopen
    // The lane's part of the open batch.
    bool done = false;  // true if the lane has no more rows in this pass
    uint64_t num_rows = 0;
    // The epoch of the first row; nullopt: the lane is only counted, and it was not asked for.
    std::optional<uint64_t> first_epoch = std::nullopt;
    uint64_t first_position = 0;     // the position of the first row, if the lane is only counted
    size_t bucket = 0;               // kBucket: the bucket of the rows, with num_rows > 0
    RowBuffer rows;                  // the rows, only if `own`
    std::vector<RowBuffer> buckets;  // the open buckets
  };
  struct Range {
    uint64_t first = 0;
    uint64_t end = 0;
  };
  // Slots of a global batch.
  struct Slots {
    int64_t first = 0;
    int64_t end = 0;
    int64_t most = 0;  // the slots of the rank that has most, at least 1
  };

  bool is_bucket() const { return plan_.batch.kind == BatchSpec::Kind::kBucket; }
  Range LanesOfRank(int rank) const;
  // The rows that each lane has in a batch (of `bucket`, in a plan with buckets).
  uint64_t RowsOfLane(size_t bucket) const;
  BatchLane& At(uint64_t lane) { return lanes_[lane - settled_.first]; }
  const BatchLane& At(uint64_t lane) const { return lanes_[lane - settled_.first]; }
  BatchLane MakeLane(uint64_t lane) const;
  absl::Status CheckRepeats() const;
  void FindLength();

  // Batching.
  void Advance();
  bool FillOpenBatch();
  bool FillLane(BatchLane& lane);
  void CountLane(BatchLane& lane);
  uint64_t FirstEpoch(uint64_t lane);
  bool FillFromBuckets(BatchLane& lane);
  size_t BucketOf(LaneRow& row, const int64_t* extents) const;
  void CloseBucket(BatchLane& lane, size_t bucket);
  void CloseBatch();
  ClosedBatch Assemble();
  void AppendRows(uint64_t lane, int64_t slot, int64_t num_slots, ClosedBatch& batch) const;
  Slots OwnSlots() const;
  int64_t SlotsBefore(uint64_t lane) const;
  int64_t SlotsOf(const BatchLane& lane) const;
  int64_t PadTo() const;
  void DropBeside(const Slots& slots);
  std::optional<uint64_t> OpenEpoch();
  void ClearOpenBatch();
  void Apply(BatchCounter::After after);

  // State (restore.cc).
  std::string WriteState();
  void WriteCounts();
  void ReadCounts(StateReader& reader);
  uint64_t TokenLaneSize(uint64_t elements, uint64_t lane) const;
  uint64_t ShapeHash() const;
  absl::Status ReadState(StateReader& reader);
  void ReadLane(StateReader& reader, BatchLane& lane) const;
  static std::vector<RowBuffer*> OpenBuffers(BatchLane& lane);
  static std::vector<RowOrigin> FindOpenRows(BatchLane& lane);

  // Constant after Init.
  const PhysicalPlan& plan_;
  const SettlerOptions options_;
  LanePlan lane_plan_;
  Range own_;
  Range settled_;
  bool all_lanes_ = true;                // true if this rank settles the lanes of every rank
  bool by_rows_ = false;                 // true if it fills rows of all lanes (RanksDivideRows)
  uint64_t max_pending_rows_ = 0;        // the most rows that wait in a lane
  std::optional<size_t> length_extent_;  // a row's extent that is its length; none: fixed_length_
  int64_t fixed_length_ = 0;

  std::vector<BatchLane> lanes_;  // the lanes of settled_
  BatchCounter counter_;
  uint64_t pass_ = 0;
  uint64_t next_index_ = 0;
  size_t lanes_to_reopen_ = 0;
  bool ended_ = false;  // true once no more batches will be closed
  std::deque<ClosedBatch> closed_;
  StateWriter writer_;
  std::vector<uint64_t> dropped_;  // records of other ranks' rows, of an input that grows
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_LANE_SETTLER_H_
