#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/run/work.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxRunBytes = 256 << 10;
// Of the rows that an op likes to get at once: sixteen photographs have about 2 MiB. Of larger
// records the time goes elsewhere, and the bytes, and what is decoded of them, would be many times
// a budget.
constexpr size_t kMaxPreferredBytes = size_t{3} << 20;
// Bytes between two wanted frames that are read with them: copying so many from the page cache
// takes less time than a second system call.
constexpr size_t kMaxGapBytes = 2 << 10;

// True when record `i` begins in the file where the one before it ends.
bool FollowsInFile(const RunWork& work, int64_t i) {
  const readers::RecordRef& before = work.refs[i - 1];
  const readers::RecordRef& ref = work.refs[i];
  return ref.shard == before.shard &&
         ref.offset == before.offset + (work.starts[i] - work.starts[i - 1]);
}

// Cuts the records of a column into reads; a column of numbers needs none.
void AddSpans(int64_t column, RunWork& work) {
  if (work.column_starts(column).front() == work.column_starts(column).back()) return;
  const int64_t first = column * work.num_rows();
  for (int64_t i = first; i < first + work.num_rows(); ++i) {
    if (i > first && !work.alone && FollowsInFile(work, i)) {
      work.spans.back().end = i + 1;
    } else {
      work.spans.push_back({i, i + 1});
    }
  }
}

void MakeRoom(size_t records, RunWork& work) {
  if (work.refs.size() < records) work.refs.resize(records);
  if (work.starts.size() < records + 1) work.starts.resize(records + 1);
}

// Rows of a run of which an op prefers `min_rows`. `fitting(bytes)` says how many rows have so many
// bytes at most, never more than there are.
template <typename Fitting>
int64_t RowsOfRun(int64_t min_rows, const Fitting& fitting) {
  const int64_t rows = std::max(fitting(kMaxRunBytes), int64_t{1});
  return rows >= min_rows ? rows : std::max(rows, std::min(min_rows, fitting(kMaxPreferredBytes)));
}

// How many of the `located` rows of all columns have so many bytes at most.
int64_t RowsThatFit(const RunWork& work, size_t located, size_t most_bytes) {
  size_t rows = 0;
  for (size_t bytes = 0; rows < located; ++rows) {
    for (size_t i = rows; i < located * static_cast<size_t>(work.columns); i += located) {
      bytes += work.starts[i + 1] - work.starts[i];
    }
    if (bytes > most_bytes) break;
  }
  return static_cast<int64_t>(rows);
}

// Leaves the first rows of each column of `located`.
void KeepRows(size_t located, int64_t rows, RunWork& work) {
  work.rows = rows;
  size_t kept = 0;
  size_t start = 0;
  for (size_t column = 0; column < static_cast<size_t>(work.columns); ++column) {
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row, ++kept) {
      const size_t i = column * located + row;
      const size_t bytes = work.starts[i + 1] - work.starts[i];
      work.refs[kept] = work.refs[i];
      work.starts[kept] = start;
      start += bytes;
    }
  }
  work.starts[kept] = start;
}

// Where the records of a row lie, and what became of their reads.
void TakeRecords(const RunWork& work, int64_t row, RunWork& single) {
  single.starts = {0};
  for (int64_t column = 0; column < work.columns; ++column) {
    const int64_t i = column * work.rows + row;
    single.refs.push_back(work.refs[i]);
    single.starts.push_back(single.starts.back() + work.starts[i + 1] - work.starts[i]);
    for (size_t span = 0; span < work.spans.size(); ++span) {
      if (i < work.spans[span].begin || i >= work.spans[span].end) continue;
      single.spans.push_back({column, column + 1});
      single.read_status.push_back(work.read_status[span]);
    }
  }
}

void CopyFrames(const RunWork& work, int64_t row, RunWork& single) {
  single.buffer = MakeReadBuffer(static_cast<size_t>(single.bytes()));
  if (single.buffer == nullptr) throw std::bad_alloc();
  for (int64_t column = 0; column < work.columns; ++column) {
    std::memcpy(single.buffer.get() + single.starts[column],
                work.buffer.get() + work.starts[column * work.rows + row],
                single.starts[column + 1] - single.starts[column]);
  }
}

int64_t LocateZipped(const readers::RecordSource& source, const Zip& zip,
                     std::span<const SampleId> ids, int64_t min_rows, RunWork& work) {
  work.columns = static_cast<int64_t>(zip.num_inputs());
  const size_t records = ids.size() * zip.num_inputs();
  work.zipped.resize(records);
  zip.Locate(ids, work.zipped);
  MakeRoom(records, work);
  source.LocateAll(work.zipped, {work.refs.data(), records}, {work.starts.data(), records + 1});
  const int64_t rows =
      RowsOfRun(min_rows, [&](size_t bytes) { return RowsThatFit(work, ids.size(), bytes); });
  KeepRows(ids.size(), rows, work);
  return rows;
}

// Moves frames apart in the buffer as far as they lie apart in the file, where that is not far.
void KeepShortGaps(std::span<const readers::RecordRef> refs, std::span<size_t> starts) {
  size_t gaps = 0;
  size_t begin = starts[0];  // of the row, without gaps
  for (size_t row = 1; row <= refs.size(); ++row) {
    const size_t frame_bytes = starts[row] - begin;
    begin = starts[row];
    if (row < refs.size() && refs[row].shard == refs[row - 1].shard) {
      const size_t gap = refs[row].offset - refs[row - 1].offset - frame_bytes;  // or it wraps
      if (gap <= kMaxGapBytes) gaps += gap;
    }
    starts[row] += gaps;
  }
}

}  // namespace

void OpenBatch::AddBadRow(BadRow bad) {
  if (candidates == 0) ++num_bad_rows;  // not those that were tried in place of a bad one
  if (bad.tolerable) {
    tolerable.push_back(std::move(bad));
  } else if (bad.row < error_row) {
    error_row = bad.row;
    error = std::move(bad.error);
  }
}

void RunWork::DropRecords() {
  buffer.reset();
  kept.clear();
  payloads.clear();
}

void RunWork::Clear() {
  DropRecords();
  batch = nullptr;
  block = nullptr;
  ids.clear();
  positions.clear();
  rows = 0;
  spans.clear();
  read_status.clear();
  alone = false;
  bad_rows.clear();
}

int64_t LocateRun(const readers::RecordSource& source, const Zip* zip,
                  std::span<const SampleId> ids, int64_t min_rows, RunWork& work) {
  if (zip != nullptr) return LocateZipped(source, *zip, ids, min_rows, work);
  if (!source.has_bytes()) return work.rows = static_cast<int64_t>(ids.size());
  MakeRoom(ids.size(), work);
  const std::span<size_t> starts(work.starts.data(), ids.size() + 1);
  source.LocateAll(ids, {work.refs.data(), ids.size()}, starts);
  KeepShortGaps({work.refs.data(), ids.size()}, starts);
  return work.rows = RowsOfRun(min_rows, [&](size_t bytes) {
           return std::upper_bound(starts.begin() + 1, starts.end(), bytes) - starts.begin() - 1;
         });
}

int64_t TakeKept(RecordKeeper& keeper, std::span<const ClosedBatch::Row> rows, int64_t enough,
                 RunWork& work) {
  std::shared_ptr<const KeptRecords> kept;
  uint64_t lane = 0;
  for (const ClosedBatch::Row& row : rows) {
    if (kept == nullptr || row.lane != lane || !kept->Has(row.origin.position)) {
      if (work.rows >= enough) break;
      lane = row.lane;
      kept = keeper.Find(lane, row.origin.position);
      if (kept == nullptr) break;
      work.kept.push_back(kept);
    }
    work.payloads.push_back(kept->payload(row.origin.position));
    ++work.rows;
  }
  return work.rows;
}

readers::RecordRef LocateSample(const readers::RecordSource& source, const Zip* zip,
                                const SampleId& id) {
  if (zip == nullptr) return source.Locate(id.record);
  std::vector<SampleId> records(zip->num_inputs());
  zip->Locate({&id, 1}, records);
  return source.Locate(records.front().record);
}

std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunWork& work) {
  work.spans.clear();
  if (work.bytes() == 0) return {};  // numbers are nowhere in a file
  for (int64_t column = 0; column < work.columns; ++column) AddSpans(column, work);
  if (work.buffer == nullptr) {
    work.buffer = MakeReadBuffer(static_cast<size_t>(work.bytes()));
  }
  std::vector<ReadRequest> reads;
  if (work.buffer == nullptr) {
    work.read_status.assign(work.spans.size(),
                            absl::ResourceExhaustedError(absl::StrCat(
                                "no memory for a read buffer of ", work.bytes(), " B")));
    return reads;
  }
  reads.reserve(work.spans.size());
  for (const ReadSpan& span : work.spans) {
    const readers::RecordRef& ref = work.refs[span.begin];
    std::byte* const first = work.buffer.get() + work.starts[span.begin];
    const size_t last_bytes = source.FramedBytes(work.refs[span.end - 1]);
    const size_t bytes = work.starts[span.end - 1] - work.starts[span.begin] + last_bytes;
    reads.push_back({source.file(ref.shard), ref.offset, {first, bytes}});
  }
  return reads;
}

RunWork SingleRow(const RunWork& work, int64_t row) {
  RunWork single;
  single.batch = work.batch;
  single.first_row = work.first_row + row;
  single.position = work.position + static_cast<uint64_t>(row);
  if (!work.ids.empty()) single.ids = {work.ids[static_cast<size_t>(row)]};
  if (!work.positions.empty()) single.positions = {work.position_of(row)};
  single.rows = 1;
  single.columns = work.columns;
  if (!work.kept.empty()) {
    single.kept = work.kept;
    single.payloads = {work.payloads[static_cast<size_t>(row)]};
  } else if (!work.starts.empty()) {
    TakeRecords(work, row, single);
  }
  if (work.buffer != nullptr) CopyFrames(work, row, single);
  single.alone = true;
  return single;
}

bool NeedsSingleReads(const RunWork& work) {
  for (size_t i = 0; i < work.spans.size(); ++i) {
    if (!work.read_status[i].ok() && work.spans[i].end - work.spans[i].begin > 1) return true;
  }
  return false;
}

}  // namespace millrace::pipeline
