#include "pipeline/run/records.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxRunBytes = 256 << 10;
// The bytes of the rows that an op prefers to get at once: sixteen photographs have about 2 MiB. An
// op gains little from more of them, and their decoded rows would be many times a budget.
constexpr size_t kMaxPreferredBytes = size_t{3} << 20;
// Elements of the windows of a run, unless one has more: records are of 16 bytes and more.
constexpr size_t kMaxRunElements = kMaxRunBytes / 16;

// True if record `i` begins in the file where the one before it ends.
bool FollowsInFile(const RunRecords& records, int64_t i) {
  const readers::RecordRef& before = records.refs[i - 1];
  const readers::RecordRef& ref = records.refs[i];
  return ref.shard == before.shard &&
         ref.offset == before.offset + (records.starts[i] - records.starts[i - 1]);
}

// Divides the records of a column into reads; a column of numbers needs none.
void AddSpans(int64_t column, RunRecords& records) {
  if (records.column_starts(column).front() == records.column_starts(column).back()) return;
  const int64_t first = column * records.rows;
  for (int64_t i = first; i < first + records.rows; ++i) {
    if (i > first && !records.alone && FollowsInFile(records, i)) {
      records.spans.back().end = i + 1;
    } else {
      records.spans.push_back({i, i + 1});
    }
  }
}

void MakeRoom(size_t count, RunRecords& records) {
  if (records.refs.size() < count) records.refs.resize(count);
  if (records.starts.size() < count + 1) records.starts.resize(count + 1);
}

// The number of rows of a run, of which an op prefers `min_rows`. `fitting(bytes)` returns how many
// rows have at most so many bytes together.
template <typename Fitting>
int64_t RowsOfRun(int64_t min_rows, const Fitting& fitting) {
  const int64_t rows = std::max(fitting(kMaxRunBytes), int64_t{1});
  return rows >= min_rows ? rows : std::max(rows, std::min(min_rows, fitting(kMaxPreferredBytes)));
}

// The number of `located` rows that have at most so many bytes in all columns together.
int64_t RowsThatFit(const RunRecords& records, size_t located, size_t most_bytes) {
  size_t rows = 0;
  for (size_t bytes = 0; rows < located; ++rows) {
    for (size_t i = rows; i < located * static_cast<size_t>(records.columns); i += located) {
      bytes += records.starts[i + 1] - records.starts[i];
    }
    if (bytes > most_bytes) break;
  }
  return static_cast<int64_t>(rows);
}

// Drops all but the first `rows` of each column of `located` rows.
void KeepRows(size_t located, int64_t rows, RunRecords& records) {
  records.rows = rows;
  size_t kept = 0;
  size_t start = 0;
  for (size_t column = 0; column < static_cast<size_t>(records.columns); ++column) {
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row, ++kept) {
      const size_t i = column * located + row;
      const size_t bytes = records.starts[i + 1] - records.starts[i];
      records.refs[kept] = records.refs[i];
      records.starts[kept] = start;
      start += bytes;
    }
  }
  records.starts[kept] = start;
}

// Moves frames apart in the buffer as far as they lie apart in the file, where that is at most
// `gap_bytes`.
void KeepShortGaps(std::span<const readers::RecordRef> refs, size_t gap_bytes,
                   std::span<size_t> starts) {
  size_t gaps = 0;
  size_t begin = starts[0];  // the begin of the row, without gaps
  for (size_t row = 1; row <= refs.size(); ++row) {
    const size_t frame_bytes = starts[row] - begin;
    begin = starts[row];
    if (row < refs.size() && refs[row].shard == refs[row - 1].shard) {
      const size_t gap = refs[row].offset - refs[row - 1].offset - frame_bytes;  // or it wraps
      if (gap <= gap_bytes) gaps += gap;
    }
    starts[row] += gaps;
  }
}

// Copies where these rows lie, and the outcomes of their reads.
void TakeRefs(const RunRecords& records, std::span<const uint32_t> rows, RunRecords& taken) {
  taken.starts = {0};
  for (int64_t column = 0; column < records.columns; ++column) {
    for (const uint32_t row : rows) {
      const int64_t i = column * records.rows + row;
      const auto at = static_cast<int64_t>(taken.refs.size());
      taken.refs.push_back(records.refs[i]);
      taken.starts.push_back(taken.starts.back() + records.starts[i + 1] - records.starts[i]);
      const auto span = std::ranges::upper_bound(records.spans, i, {}, &ReadSpan::end);
      if (span == records.spans.end() || i < span->begin) continue;
      taken.spans.push_back({at, at + 1});
      taken.read_status.push_back(
          records.read_status[static_cast<size_t>(span - records.spans.begin())]);
    }
  }
}

void CopyFrames(const RunRecords& records, std::span<const uint32_t> rows, RunRecords& taken) {
  taken.buffer = MakeReadBuffer(static_cast<size_t>(taken.bytes()));
  if (taken.buffer == nullptr) throw std::bad_alloc();
  size_t to = 0;
  for (int64_t column = 0; column < records.columns; ++column) {
    for (const uint32_t row : rows) {
      std::memcpy(taken.buffer.get() + taken.starts[to],
                  records.buffer.get() + records.starts[column * records.rows + row],
                  taken.starts[to + 1] - taken.starts[to]);
      ++to;
    }
  }
}

// These rows as records of their own.
RunRecords RecordsOf(const RunRecords& records, std::span<const uint32_t> rows) {
  RunRecords taken;
  taken.rows = static_cast<int64_t>(rows.size());
  taken.columns = records.columns;
  if (!records.starts.empty()) TakeRefs(records, rows, taken);
  if (records.buffer != nullptr) CopyFrames(records, rows, taken);
  taken.alone = true;
  taken.in_place = records.in_place;
  if (records.windows < 0) return taken;
  for (const uint32_t row : rows) {
    taken.elements.at.push_back(static_cast<uint32_t>(taken.elements.ids.size()));
    taken.elements.ids.push_back(records.elements.ids[row]);
  }
  return taken;
}

// Locates the records that samples are, with short gaps between them; returns the starts.
std::span<const size_t> LocateAlone(const readers::RecordSource& source,
                                    std::span<const SampleId> ids, RunRecords& records) {
  MakeRoom(ids.size(), records);
  const std::span<size_t> starts(records.starts.data(), ids.size() + 1);
  source.LocateAll(ids, {records.refs.data(), ids.size()}, starts);
  records.in_place = source.in_place();
  KeepShortGaps({records.refs.data(), ids.size()}, source.gap_bytes(), starts);
  return starts;
}

// Locates the records of samples in all columns.
void LocateColumns(const readers::RecordSource& source, const Zip& zip,
                   std::span<const SampleId> ids, RunRecords& records) {
  records.columns = static_cast<int64_t>(zip.num_inputs());
  const size_t count = ids.size() * zip.num_inputs();
  records.zipped.resize(count);
  zip.Locate(ids, records.zipped);
  MakeRoom(count, records);
  source.LocateAll(records.zipped, {records.refs.data(), count},
                   {records.starts.data(), count + 1});
}

int64_t LocateZipped(const readers::RecordSource& source, const Zip& zip,
                     std::span<const SampleId> ids, int64_t min_rows, RunRecords& records) {
  LocateColumns(source, zip, ids, records);
  const int64_t rows =
      RowsOfRun(min_rows, [&](size_t bytes) { return RowsThatFit(records, ids.size(), bytes); });
  KeepRows(ids.size(), rows, records);
  return rows;
}

// The number of `windows` whose elements have at most so many bytes in all columns together.
int64_t WindowsThatFit(const RunRecords& records, size_t windows, size_t most_bytes) {
  const std::vector<uint32_t>& at = records.elements.at;
  const size_t rows = records.elements.ids.size();
  const size_t size = at.size() / windows;
  size_t fitting = 0;
  for (size_t bytes = 0; fitting < windows; ++fitting) {
    for (size_t k = fitting * size; k < (fitting + 1) * size; ++k) {
      for (size_t i = at[k]; i < rows * static_cast<size_t>(records.columns); i += rows) {
        bytes += records.starts[i + 1] - records.starts[i];
      }
    }
    if (bytes > most_bytes) break;
  }
  return static_cast<int64_t>(fitting);
}

// Locates all elements of these windows.
void LocateElements(const readers::RecordSource& source, const SampleParts& parts,
                    std::span<const SampleId> windows, RunRecords& records) {
  parts.windows->Locate(windows, records.elements);
  const std::vector<SampleId>& ids = records.elements.ids;
  records.windows = static_cast<int64_t>(windows.size());
  records.rows = static_cast<int64_t>(ids.size());
  if (parts.zip != nullptr) {
    LocateColumns(source, *parts.zip, ids, records);
  } else if (source.has_bytes()) {
    LocateAlone(source, ids, records);
  }
}

int64_t LocateWindows(const readers::RecordSource& source, const SampleParts& parts,
                      std::span<const SampleId> windows, int64_t min_rows, RunRecords& records) {
  const size_t size = parts.windows->size();
  windows = windows.first(std::min(windows.size(), std::max<size_t>(kMaxRunElements / size, 1)));
  LocateElements(source, parts, windows, records);
  if (records.bytes() == 0) return records.windows;
  const int64_t fitting = RowsOfRun(
      min_rows, [&](size_t bytes) { return WindowsThatFit(records, windows.size(), bytes); });
  if (fitting < records.windows) {
    LocateElements(source, parts, windows.first(static_cast<size_t>(fitting)), records);
  }
  return records.windows;
}

}  // namespace

void RunRecords::Clear() {
  buffer.reset();
  rows = 0;
  windows = -1;
  spans.clear();
  read_status.clear();
  alone = false;
  in_place = false;
}

int64_t LocateRun(const readers::RecordSource& source, const SampleParts& parts,
                  std::span<const SampleId> ids, int64_t min_rows, RunRecords& records) {
  if (parts.windows != nullptr) return LocateWindows(source, parts, ids, min_rows, records);
  if (parts.zip != nullptr) return LocateZipped(source, *parts.zip, ids, min_rows, records);
  if (!source.has_bytes()) return records.rows = static_cast<int64_t>(ids.size());
  const std::span<const size_t> starts = LocateAlone(source, ids, records);
  return records.rows = RowsOfRun(min_rows, [&](size_t bytes) {
           return std::upper_bound(starts.begin() + 1, starts.end(), bytes) - starts.begin() - 1;
         });
}

readers::RecordRef LocateSample(const readers::RecordSource& source, const SampleParts& parts,
                                const SampleId& id) {
  SampleId sample = id;
  if (parts.windows != nullptr) {
    WindowElements elements;
    parts.windows->Locate({&id, 1}, elements);
    sample = elements.ids[elements.at.front()];
  }
  if (parts.zip == nullptr) return source.Locate(sample.record);
  std::vector<SampleId> records(parts.zip->num_inputs());
  parts.zip->Locate({&sample, 1}, records);
  return source.Locate(records.front().record);
}

std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunRecords& records) {
  records.spans.clear();
  if (records.bytes() == 0) return {};  // numbers and records in memory are nowhere in a file
  for (int64_t column = 0; column < records.columns; ++column) AddSpans(column, records);
  if (records.buffer == nullptr) {
    records.buffer = MakeReadBuffer(static_cast<size_t>(records.bytes()));
  }
  std::vector<ReadRequest> reads;
  if (records.buffer == nullptr) {
    records.read_status.assign(records.spans.size(),
                               absl::ResourceExhaustedError(absl::StrCat(
                                   "no memory for a read buffer of ", records.bytes(), " B")));
    return reads;
  }
  reads.reserve(records.spans.size());
  for (const ReadSpan& span : records.spans) {
    const readers::RecordRef& ref = records.refs[span.begin];
    std::byte* const first = records.buffer.get() + records.starts[span.begin];
    const size_t last_bytes = source.FramedBytes(records.refs[span.end - 1]);
    const size_t bytes = records.starts[span.end - 1] - records.starts[span.begin] + last_bytes;
    reads.push_back({source.file(ref.shard), ref.offset, {first, bytes}});
  }
  return reads;
}

RunRecords RecordsOfRow(const RunRecords& records, int64_t row) {
  if (records.windows < 0) {
    const auto number = static_cast<uint32_t>(row);
    return RecordsOf(records, {&number, 1});
  }
  RunRecords window = RecordsOf(records, records.elements_of(row));
  window.windows = 1;
  return window;
}

RunRecords RecordsOfElement(const RunRecords& records, uint32_t element) {
  return RecordsOf(records, {&element, 1});
}

bool NeedsSingleReads(const RunRecords& records) {
  for (size_t i = 0; i < records.spans.size(); ++i) {
    if (!records.read_status[i].ok() && records.spans[i].end - records.spans[i].begin > 1)
      return true;
  }
  return false;
}

}  // namespace millrace::pipeline
