#ifndef MILLRACE_PIPELINE_CUT_SETTLER_H_
#define MILLRACE_PIPELINE_CUT_SETTLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/batch/closed_batch.h"
#include "pipeline/plan/physical.h"

// The one place where a plan with a cut is sequential. Pass 1 looks at records in any order, on any
// worker, and finds out whether each is kept (Examined). The settler takes these findings lane by
// lane in order of position and hands out rows: keep, drop, expand, take, skip, shuffle, into an
// open bucket or batch. It moves handles of a few words, O(1) each, and never a payload. Its state
// between two batches is the resume token of the first. The results are defined by
// docs/semantics.md, S-CUT, S-BATCH and S-STATE from 10 on.
//
// Rows pull: a lane uses no finding before a batch needs it, and at most two closed batches wait
// (a batch says whether the next one begins another epoch). So the rows held at any time are, per
// lane, the findings not used (WantsMore: below max(64, twice the lane's rows of a batch) plus the
// blocks that were under way), the shuffles' buffers, less than one bucket's rows per bucket, and
// of this rank three batches (of the open one all rows where ranks divide them): at most 48 bytes
// and the extents each.

namespace millrace::pipeline {

// The findings of pass 1 about positions [first, end) of a lane. Rows dropped by the first filter
// with no settle step before it are left out.
struct Examined {
  struct Row {
    RowOrigin origin;
    // The number of filters that it passed before one dropped it; num_filters: it is kept.
    int passed_filters = 0;
    int32_t error = -1;  // index into errors: the row could not be looked at
  };
  uint64_t lane = 0;
  uint64_t first = 0;
  uint64_t end = 0;
  std::vector<Row> rows;
  uint64_t num_kept = 0;  // rows that passed every filter
  // Per row, the extents of CutPlan::extents_of in order and the value of value_of,
  // `extents_per_row` numbers.
  std::vector<int64_t> extents;
  std::vector<absl::Status> errors;  // complete (stage, file, offset; without the stream position)
};

// Returns the most memory that a settler of the plan needs, but for the blocks under way.
// `num_records`: elements of a pass over its input. REQUIRES: plan.cut.
uint64_t SettlerBytes(const PhysicalPlan& plan, size_t extents_per_row, uint64_t num_records);

struct SettlerOptions {
  int rank = 0;
  int world = 1;
  uint64_t num_lanes = 1;
  uint64_t seed = 0;
  size_t extents_per_row = 0;
  // Input elements of each lane in one pass; kInfinite without end.
  std::vector<uint64_t> lane_sizes;
  // True if the input never ends: then a rank settles its own lanes alone, and lanes of other ranks
  // count as full. Otherwise every rank settles all lanes, since the end of an epoch depends on all
  // of them.
  bool endless = false;
  // True if the input goes on until EndInput says where it ends, and each record is given back by
  // itself (TakeDropped). Every rank settles all lanes.
  bool grows = false;
  // True if lanes are free (LanesAreFree, plan/physical.h): then the lanes of other ranks are
  // counted and not looked at, and a state tells of `token_lanes` lanes, however many there are.
  bool counts = false;
  uint64_t token_lanes = 1;
  // The epoch of a lane's element, by its position through all passes. Called only if `counts`,
  // once a batch at most, and as a rule for ascending positions.
  std::function<uint64_t(uint64_t lane, uint64_t position)> epoch_of = {};
};

// Thread-compatible: one worker of the executor has it at a time.
class Settler {
 public:
  // Borrows the plan for its lifetime. A rank may settle fewer lanes than there are only when
  // lanes() says so: behind a take, or into buckets, it settles all of an endless input too.
  //   INVALID_ARGUMENT  the lanes do not divide a batch size;
  //                     or world > lanes where ranks do not know batches (RanksKnowBatches; "...
  //                     set lanes: 8");
  //                     or batches of an endless input are repeated
  static absl::StatusOr<std::unique_ptr<Settler>> Make(const PhysicalPlan& plan,
                                                       SettlerOptions options);
  virtual ~Settler() = default;

  // Continues behind the batch whose `state` this is, at any world. Before the first Settle.
  // After an error the settler is of no use.
  //   INVALID_ARGUMENT     not the state of a ClosedBatch, or of another plan
  //   FAILED_PRECONDITION  of a rank that settled fewer lanes than this one needs: an endless input
  //                        goes on at the same world, rank by rank
  virtual absl::Status Restore(std::string_view state) = 0;

  // The lanes of which this rank takes findings, ascending.
  virtual std::vector<uint64_t> lanes() const = 0;
  // Records with rows that were open when the state was made (in buckets, in a shuffle's buffer):
  // each once, ascending, with `position` alone filled in. They have to be examined again, whole,
  // and given to Reopen in one call before the lane's first Settle; a lane without any needs none.
  //   FAILED_PRECONDITION  an open row is not among them: the data was changed
  virtual std::vector<RowOrigin> OpenRows(uint64_t lane) const = 0;
  virtual absl::Status Reopen(uint64_t lane, const Examined& rows) = 0;
  // The next position of a lane that Settle wants; positions count on through all passes. It jumps
  // to the next pass when the rest of this one is not needed (behind a take).
  virtual uint64_t NextPosition(uint64_t lane) const = 0;
  // False while the lane has rows for more batches than the lane furthest behind needs: do not
  // examine further ahead than the ring asks for.
  virtual bool WantsMore(uint64_t lane) const = 0;

  // Takes the findings about the lane's next positions. Blocks that were under way when
  // NextPosition jumped may be given too: positions before it are ignored.
  // REQUIRES: block.first <= NextPosition.
  virtual void Settle(Examined block) = 0;
  // The next batch in order, when it is closed.
  //   nullopt  it needs more of some lane, or (ended()) there is none
  virtual std::optional<ClosedBatch> Take() = 0;
  // True once every batch was taken.
  virtual bool ended() const = 0;

  // An input that grows. Its one pass has so many elements in each lane. Call it once.
  virtual void EndInput(const std::vector<uint64_t>& lane_sizes) = 0;
  // True if the rows of some lane came to the end of the input; false where a take went before.
  virtual bool reached_end() const = 0;
  // True if no batch holds rows of the lane's next positions, however the input goes on.
  virtual bool LaneIsDone(uint64_t lane) const = 0;
  // Returns the records of rows that were given to Settle and will be in no ClosedBatch of this
  // rank: each in one call, once for every such row. Rows left over at the end of the input are not
  // among them.
  virtual std::vector<uint64_t> TakeDropped() = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_SETTLER_H_
