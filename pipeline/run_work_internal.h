#ifndef MILLRACE_PIPELINE_RUN_WORK_INTERNAL_H_
#define MILLRACE_PIPELINE_RUN_WORK_INTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/io.h"
#include "base/run.h"
#include "pipeline/batch_internal.h"
#include "pipeline/order_internal.h"
#include "pipeline/physical_plan_internal.h"
#include "readers/record_source.h"

// One run on its way from positions to rows of a slab: cut, read, worked on. How rows are grouped
// into runs, and records into reads, never shows in a batch or in an error.

namespace millrace::pipeline {

// A batch that is being made. Its rows are written by many workers at once, each its own.
struct OpenBatch {
  // Constant once the batch is in the ring.
  std::shared_ptr<BatchData> data;
  BatchPlace place;
  int64_t valid_rows = 0;  // of this rank

  // Guarded by the executor's mutex.
  int64_t claimed_rows = 0;    // given to a planner
  int64_t remaining_rows = 0;  // not finished
  int64_t num_bad_rows = 0;
  int64_t error_row = std::numeric_limits<int64_t>::max();
  absl::Status error;  // of error_row, the lowest bad row so far
};

// Records that one read fetches: rows [begin, end) of a run.
struct ReadSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

// Rows [first_row, first_row + num_rows()) of a batch's slab. Pooled; owned by one thread at a
// time.
struct RunWork {
  OpenBatch* batch = nullptr;
  int64_t first_row = 0;
  uint64_t position = 0;  // of the first row in the stream
  std::vector<readers::RecordRef> refs;
  std::vector<size_t> starts;  // of each record's frame in `buffer`, and the end of the last
  std::unique_ptr<std::byte[]> buffer;
  std::vector<ReadSpan> spans;
  std::vector<absl::Status> read_status;  // of each span
  bool alone = false;                     // read every record by itself
  int64_t reserved_bytes = 0;             // in the budget

  int64_t num_rows() const { return static_cast<int64_t>(refs.size()); }
  int64_t bytes() const { return starts.empty() ? 0 : static_cast<int64_t>(starts.back()); }
  // Empties it for its next use.
  void Clear();
  // Appends a record whose frame has `framed_bytes`.
  void Append(const readers::RecordRef& ref, uint64_t framed_bytes);
};

// Makes `work`, cleared, a run of the first of these samples: as many as have frames of at most
// `max_bytes` together, but at least `min_rows`, if there are so many. Returns their number.
int64_t LocateRun(const readers::RecordSource& source, std::span<const SampleId> ids,
                  int64_t min_rows, int64_t max_bytes, RunWork& work);

// Takes the buffer of `work` and returns the reads that fill it: records that follow each other in
// a file in one, unless work.alone. No reads when there is no memory: read_status says so.
std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunWork& work);

// True when a read of several records failed: which of them is bad only single reads can tell.
bool NeedsSingleReads(const RunWork& work);

// What a worker needs besides the run. Pooled; owned by one thread at a time.
struct RunScratch {
  RunArena arena;
  std::vector<std::vector<FieldSlots>> slots;  // per op, where the fields that it binds lie
  int64_t reserved_bytes = 0;                  // of the arena, in the budget
};

// What became of a run.
struct RunOutcome {
  int64_t num_bad_rows = 0;
  int64_t first_bad_row = -1;  // of the run
  absl::Status error;          // of that row, complete
};

// Turns the bytes of a run into rows of its batch. Immutable, thread-safe.
class RunProcessor {
 public:
  // Borrows both for its lifetime.
  RunProcessor(const PhysicalPlan& plan, const readers::RecordSource& source);

  RunScratch MakeScratch() const;
  RunOutcome Process(const RunWork& work, RunScratch& scratch) const;
  // The least number of rows that an op wants.
  int64_t preferred_rows() const { return preferred_rows_; }

 private:
  void PlaceSlots(const RunWork& work, RunScratch& scratch) const;
  void Unframe(const RunWork& work, Run& run) const;
  // Rows [begin, end), whose bytes were read.
  void UnframeRows(const RunWork& work, int64_t begin, int64_t end, Column& column, Run& run) const;
  // The column of a range: the records' numbers, where they lie in the batch's ids.
  void ReadNumbers(const RunWork& work, Run& run) const;
  void Store(const RunWork& work, Run& run) const;
  void StoreField(const RunWork& work, size_t field, Run& run) const;
  // Stores all rows of a field at once, if the column lies as the field wants it.
  bool StoreDense(const RunWork& work, size_t field, const Column& column) const;
  void StoreRow(const RunWork& work, size_t field, int64_t row, const ConstTensorView& value,
                Run& run) const;
  absl::Status Describe(const RunWork& work, int64_t row, const absl::Status& status,
                        std::string_view stage) const;

  const PhysicalPlan& plan_;
  const readers::RecordSource& source_;
  std::vector<std::vector<size_t>> bound_fields_;  // per op, indices into the batch's schema
  const bool reads_numbers_;                       // of a range, which has no bytes
  int64_t preferred_rows_ = 1;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_WORK_INTERNAL_H_
