#ifndef MILLRACE_PIPELINE_RUN_WORK_H_
#define MILLRACE_PIPELINE_RUN_WORK_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/io.h"
#include "base/run.h"
#include "pipeline/batch/data.h"
#include "pipeline/cut/settler.h"
#include "pipeline/order/order.h"
#include "pipeline/order/zip.h"
#include "pipeline/plan/physical.h"
#include "pipeline/run/kept_records.h"
#include "pipeline/run/read_buffer.h"
#include "readers/record_source.h"

// One run on its way from positions to rows of a slab: cut, read, worked on. How rows are grouped
// into runs, and records into reads, never shows in a batch or in an error.

namespace millrace::pipeline {

struct ScanBlock;  // pipeline/cut/scan_board.h

// A row that cannot be delivered as it is.
struct BadRow {
  int64_t row = 0;         // of the batch's slab
  bool tolerable = false;  // damage, and the plan goes on behind it
  absl::Status error;      // complete
};

// A batch that is being made. Its rows are written by many workers at once, each its own.
struct OpenBatch {
  // Constant once the batch is in the ring.
  std::shared_ptr<BatchData> data;
  const BatchOrder* order = nullptr;   // without a cut
  BatchPlace place;                    // without a cut
  bool closed = false;                 // of a plan with a cut: the slab holds the rows' ids
  std::vector<ClosedBatch::Row> rows;  // with a cut: to work on, ascending slots
  int64_t num_work_rows = 0;           // of this rank; without a cut they fill slots from 0 on
  uint64_t first_position = 0;         // of slot 0 in the stream
  std::vector<uint32_t> lanes;         // of each slot, where rows that move up stay in their lane

  // Guarded by the executor's mutex.
  bool ready = false;          // to be delivered
  int64_t claimed_rows = 0;    // given to a planner
  int64_t remaining_rows = 0;  // not finished
  int64_t num_bad_rows = 0;
  int64_t error_row = std::numeric_limits<int64_t>::max();
  absl::Status error;             // of error_row, the lowest row so far that no policy mends
  std::vector<BadRow> tolerable;  // to be mended once all rows have landed
  uint32_t candidates = 0;        // of each damaged sample, that were tried

  void AddBadRow(BadRow bad);
};

// Records that one read fetches: [begin, end) of RunWork::refs, of one column.
struct ReadSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

// Rows [first_row, first_row + num_rows()) of a batch's slab, or records that pass 1 looks at.
// Pooled; owned by one thread at a time.
struct RunWork {
  OpenBatch* batch = nullptr;  // null in pass 1
  int64_t first_row = 0;
  uint64_t position = 0;       // of the first row: in the stream; in pass 1 in its lane
  ScanBlock* block = nullptr;  // pass 1: what the findings are for
  std::vector<SampleId> ids;   // pass 1: of each row
  // Pass 1: of each row, in its lane; empty where they count on from the first one's.
  std::vector<uint64_t> positions;
  int64_t rows = 0;
  int64_t columns = 1;  // records of a row: inputs of a zip
  // Column after column, each of all rows. At least so long: they keep the length that some run
  // needed, so that none is cleared twice. Empty when records have no bytes.
  std::vector<readers::RecordRef> refs;
  std::vector<size_t> starts;    // of each record's frame in `buffer`, and the last's end
  std::vector<SampleId> zipped;  // a zip's records, before it is known how many rows fit
  ReadBuffer buffer;
  // In the place of refs, starts and buffer: records that pass 1 has read, one a row.
  std::vector<std::shared_ptr<const KeptRecords>> kept;
  std::vector<std::string_view> payloads;  // in `kept`
  std::vector<ReadSpan> spans;
  std::vector<absl::Status> read_status;  // of each span
  bool alone = false;                     // read every record by itself
  int64_t reserved_bytes = 0;             // in the budget
  std::vector<BadRow> bad_rows;           // of pass 2, once it was worked on

  int64_t num_rows() const { return rows; }
  uint64_t position_of(int64_t row) const {
    return positions.empty() ? position + static_cast<uint64_t>(row)
                             : positions[static_cast<size_t>(row)];
  }
  // To be read.
  int64_t bytes() const {
    if (!kept.empty()) return 0;
    const auto records = static_cast<size_t>(rows * columns);
    return records == 0 || starts.empty() ? 0 : static_cast<int64_t>(starts[records]);
  }
  // Of the rows of a column.
  std::span<const readers::RecordRef> column_refs(int64_t column) const {
    return {refs.data() + column * rows, static_cast<size_t>(rows)};
  }
  // And the end of its last frame.
  std::span<const size_t> column_starts(int64_t column) const {
    return {starts.data() + column * rows, static_cast<size_t>(rows) + 1};
  }
  // Gives back what holds the records' bytes, once nobody looks at them.
  void DropRecords();
  // Empties it for its next use.
  void Clear();
};

// Makes `work`, cleared, a run of the first of these samples: as many as have frames of at most
// 256 KiB together, or `min_rows`, or as many of these as have at most 3 MiB. `zip` is null where
// the samples are records of the source. Returns their number, at least 1. REQUIRES: ids is not
// empty.
int64_t LocateRun(const readers::RecordSource& source, const Zip* zip,
                  std::span<const SampleId> ids, int64_t min_rows, RunWork& work);

// Makes `work`, cleared, a run of the first of `rows`, whose records were kept: all there are in a
// row, but from `enough` rows on no further than one read of pass 1 goes. Returns their number.
int64_t TakeKept(RecordKeeper& keeper, std::span<const ClosedBatch::Row> rows, int64_t enough,
                 RunWork& work);

// Where a sample lies; of a zip, its first input's record.
readers::RecordRef LocateSample(const readers::RecordSource& source, const Zip* zip,
                                const SampleId& id);

// Takes the buffer of `work` and returns the reads that fill it: records that follow each other in
// a file in one, unless work.alone. No reads when there is no memory: read_status says so.
std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunWork& work);

// Row `row` of `work` as a run of its own, with a copy of its frame.
RunWork SingleRow(const RunWork& work, int64_t row);

// True when a read of several records failed: which of them is bad only single reads can tell.
bool NeedsSingleReads(const RunWork& work);

// The column of a source whose records have bytes.
inline constexpr std::string_view kRecordColumn = "record";

// What a worker needs besides the run. Pooled; owned by one thread at a time.
struct RunScratch {
  RunArena arena;
  std::vector<std::vector<FieldSlots>> slots;  // per op, where the fields that it binds lie
  int64_t reserved_bytes = 0;                  // of the arena, in the budget
};

// Turns the bytes of a run into rows of its batch. Immutable, thread-safe.
class RunProcessor {
 public:
  // Borrows both for its lifetime.
  RunProcessor(const PhysicalPlan& plan, const readers::RecordSource& source);

  RunScratch MakeScratch() const;
  // Adds the source's columns: kRecordColumn and perhaps "label", (range) "value", or those of a
  // zip; rows that could not be read are failed.
  void Load(const RunWork& work, Run& run) const;
  // Returns its bad rows, ascending. An op that throws makes its row INTERNAL.
  std::vector<BadRow> Process(const RunWork& work, RunScratch& scratch) const;
  // The least number of rows that an op wants.
  int64_t preferred_rows() const { return preferred_rows_; }
  // Whether the plan goes on behind a row with this error.
  bool Tolerates(const absl::Status& error) const;
  // Adds to the error of a row's stage where the record lies and the row's place in the stream.
  absl::Status Locate(const absl::Status& status, const readers::RecordRef& ref,
                      uint64_t position) const;

 private:
  std::optional<std::vector<BadRow>> TryProcess(const RunWork& work, RunScratch& scratch) const;
  void PlaceSlots(const RunWork& work, RunScratch& scratch) const;
  void LoadZip(const RunWork& work, Run& run) const;
  void LoadKept(const RunWork& work, Run& run) const;
  // The records of a column of `work`, as the column `name`.
  void Unframe(const RunWork& work, int64_t from, std::string_view name, Run& run) const;
  // Its rows [begin, end), whose bytes were read.
  void UnframeRows(const RunWork& work, int64_t from, int64_t begin, int64_t end, Column& column,
                   Run& run) const;
  // The column "label" of a source whose records have one.
  void LoadLabels(const RunWork& work, Run& run) const;
  // The column of a range: the records' numbers, where they lie in the rows' ids.
  void LoadNumbers(const RunWork& work, Run& run) const;
  // The same where several ranges are joined or zipped: each begins at 0 again.
  void LoadJoinedNumbers(const RunWork& work, int64_t from, std::string_view name, Run& run) const;
  // Adds to an error where its record lies.
  absl::Status At(const absl::Status& status, const readers::RecordRef& ref) const;
  void Store(const RunWork& work, Run& run) const;
  void StoreField(const RunWork& work, size_t field, Run& run) const;
  // Stores all rows of a field at once, if the column lies as the field wants it.
  bool StoreAtOnce(const RunWork& work, size_t field, const Column& column) const;
  absl::Status Describe(const RunWork& work, int64_t row, const absl::Status& status,
                        std::string_view stage) const;

  const PhysicalPlan& plan_;
  const readers::RecordSource& source_;
  std::vector<std::vector<size_t>> bound_fields_;  // per op, indices into the batch's schema
  const bool reads_numbers_;                       // of a range, which has no bytes
  int64_t preferred_rows_ = 1;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_WORK_H_
