#ifndef MILLRACE_PIPELINE_RUN_RECORDS_H_
#define MILLRACE_PIPELINE_RUN_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/io.h"
#include "base/run.h"
#include "pipeline/order/sample_windows.h"
#include "pipeline/run/read_buffer.h"
#include "readers/record_source.h"

// The records of one run: where they lie, the reads that fetch them, and their bytes. How rows are
// grouped into runs, and records into reads, never shows in a batch or in an error.

namespace millrace::pipeline {

// The records that one read fetches: [begin, end) of RunRecords::refs, all of one column.
struct ReadSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

// Owned by one thread at a time. Reused from run to run: vectors keep their memory.
struct RunRecords {
  int64_t rows = 0;  // of samples of the source or zip: those of the run, or its windows' elements
  int64_t columns = 1;   // records of a row: the inputs of a zip
  int64_t windows = -1;  // rows of the run that are windows; -1: there are none
  // Column after column, each of all rows. Both may be longer than needed: they are not shortened
  // from run to run, so that nothing is zeroed again. Empty if records have no bytes.
  std::vector<readers::RecordRef> refs;
  std::vector<size_t> starts;    // each record's frame in `buffer`, and the last one's end
  std::vector<SampleId> zipped;  // scratch: the records of a zip before the rows are counted
  WindowElements elements;       // of the windows; `rows` are its ids
  ReadBuffer buffer;
  std::vector<ReadSpan> spans;
  std::vector<absl::Status> read_status;  // the status of each span
  bool alone = false;                     // true if every record is read by itself
  bool in_place = false;                  // true if records lie in memory, and none is read
  int64_t reserved_bytes = 0;             // the bytes of the buffer, reserved in the budget
  int64_t submitted_ns = 0;               // the time at which its reads began

  // The rows of the run.
  int64_t num_rows() const { return windows < 0 ? rows : windows; }
  // The rows that are the elements of a window. REQUIRES: there are windows.
  std::span<const uint32_t> elements_of(int64_t window) const {
    const size_t size = elements.at.size() / static_cast<size_t>(windows);
    return std::span(elements.at).subspan(static_cast<size_t>(window) * size, size);
  }
  // The size of the buffer.
  int64_t bytes() const {
    const auto records = static_cast<size_t>(rows * columns);
    const bool are_read = records > 0 && !starts.empty() && !in_place;
    return are_read ? static_cast<int64_t>(starts[records]) : 0;
  }
  // The bytes of a record's frame in `buffer`; none if records are in place.
  std::span<const std::byte> frame(size_t record, size_t frame_bytes) const {
    if (in_place) return {};
    return {buffer.get() + starts[record], frame_bytes};
  }
  // The records of a column, one per row.
  std::span<const readers::RecordRef> column_refs(int64_t column) const {
    return {refs.data() + column * rows, static_cast<size_t>(rows)};
  }
  // The starts of a column's frames, and the end of its last one.
  std::span<const size_t> column_starts(int64_t column) const {
    return {starts.data() + column * rows, static_cast<size_t>(rows) + 1};
  }
  // Empties it for the next run; the place in the budget stays.
  void Clear();
};

// Makes `records`, cleared, the first of these samples: as many as have frames of at most 256 KiB
// together, or `min_rows`, or as many of these as have at most 3 MiB. A record counts once for each
// window that it is in. Returns their number, at least 1. REQUIRES: ids is not empty.
int64_t LocateRun(const readers::RecordSource& source, const SampleParts& parts,
                  std::span<const SampleId> ids, int64_t min_rows, RunRecords& records);

// Returns where a sample lies; of a zip, where its first input's record lies, and of a window,
// where its first element does.
readers::RecordRef LocateSample(const readers::RecordSource& source, const SampleParts& parts,
                                const SampleId& id);

// Makes the buffer and returns the reads that fill it: records that follow each other in a file are
// one read, unless records.alone. Without memory there are no reads, and read_status says so.
std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunRecords& records);

// Returns true if a read of several records failed: only single reads can tell which of them is
// bad.
bool NeedsSingleReads(const RunRecords& records);

// Returns row `row` of the run as records of their own, with a copy of their frames.
RunRecords RecordsOfRow(const RunRecords& records, int64_t row);
// Returns an element of a window so: a run of one row that is no window.
RunRecords RecordsOfElement(const RunRecords& records, uint32_t element);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_RECORDS_H_
