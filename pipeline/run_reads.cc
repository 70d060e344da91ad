#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "pipeline/run_work_internal.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxRunBytes = 256 << 10;
// Bytes between two wanted frames that are read with them: copying so many from the page cache
// takes less time than a second system call.
constexpr size_t kMaxGapBytes = 2 << 10;

// True when record `row` begins in the file where the one before it ends.
bool FollowsInFile(const RunWork& work, int64_t row) {
  const readers::RecordRef& before = work.refs[row - 1];
  const readers::RecordRef& ref = work.refs[row];
  return ref.shard == before.shard &&
         ref.offset == before.offset + (work.starts[row] - work.starts[row - 1]);
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

void RunWork::Clear() {
  batch = nullptr;
  block = nullptr;
  origins.clear();
  rows = 0;
  buffer.reset();
  spans.clear();
  read_status.clear();
  alone = false;
}

int64_t LocateRun(const readers::RecordSource& source, std::span<const SampleId> ids,
                  int64_t min_rows, RunWork& work) {
  if (!source.has_bytes()) return work.rows = static_cast<int64_t>(ids.size());
  if (work.refs.size() < ids.size()) work.refs.resize(ids.size());
  if (work.starts.size() < ids.size() + 1) work.starts.resize(ids.size() + 1);
  const std::span<size_t> starts(work.starts.data(), ids.size() + 1);
  source.LocateAll(ids, {work.refs.data(), ids.size()}, starts);
  KeepShortGaps({work.refs.data(), ids.size()}, starts);
  const auto full = std::upper_bound(starts.begin() + 1, starts.end(), kMaxRunBytes);
  const auto fitting = static_cast<int64_t>(full - starts.begin()) - 1;
  work.rows = std::min(std::max({fitting, min_rows, int64_t{1}}), static_cast<int64_t>(ids.size()));
  return work.rows;
}

std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunWork& work) {
  work.spans.clear();
  if (work.bytes() == 0) return {};  // a range: numbers are nowhere in a file
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    if (row > 0 && !work.alone && FollowsInFile(work, row)) {
      work.spans.back().end = row + 1;
    } else {
      work.spans.push_back({row, row + 1});
    }
  }
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
  const auto i = static_cast<size_t>(row);
  RunWork single;
  single.batch = work.batch;
  single.first_row = work.first_row + row;
  single.position = work.position + static_cast<uint64_t>(row);
  if (!work.origins.empty()) single.origins = {work.origins[i]};
  single.rows = 1;
  if (!work.starts.empty()) {
    single.refs = {work.refs[i]};
    single.starts = {0, work.starts[i + 1] - work.starts[i]};
  }
  for (size_t span = 0; span < work.spans.size(); ++span) {
    if (row < work.spans[span].begin || row >= work.spans[span].end) continue;
    single.spans = {{0, 1}};
    single.read_status = {work.read_status[span]};
  }
  if (work.buffer != nullptr) {
    single.buffer.reset(new std::byte[static_cast<size_t>(single.bytes())]);
    std::memcpy(single.buffer.get(), work.buffer.get() + work.starts[i],
                static_cast<size_t>(single.bytes()));
  }
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
