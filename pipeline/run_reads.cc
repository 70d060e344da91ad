#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "pipeline/run_work_internal.h"

namespace millrace::pipeline {
namespace {

// True when record `row` begins in the file where the one before it ends.
bool FollowsInFile(const RunWork& work, int64_t row) {
  const readers::RecordRef& before = work.refs[row - 1];
  const readers::RecordRef& ref = work.refs[row];
  return ref.shard == before.shard &&
         ref.offset == before.offset + (work.starts[row] - work.starts[row - 1]);
}

}  // namespace

void RunWork::Clear() {
  batch = nullptr;
  refs.clear();
  starts.clear();
  buffer.reset();
  spans.clear();
  read_status.clear();
  alone = false;
}

void RunWork::Append(const readers::RecordRef& ref, uint64_t framed_bytes) {
  if (starts.empty()) starts.push_back(0);
  refs.push_back(ref);
  starts.push_back(starts.back() + framed_bytes);
}

int64_t LocateRun(const readers::RecordSource& source, std::span<const SampleId> ids,
                  int64_t min_rows, int64_t max_bytes, RunWork& work) {
  work.refs.resize(ids.size());
  work.starts.resize(ids.size() + 1);
  source.LocateAll(ids, work.refs, work.starts);
  // The last row that ends within max_bytes.
  const auto limit = static_cast<size_t>(max_bytes);
  const auto full = std::upper_bound(work.starts.begin() + 1, work.starts.end(), limit);
  const auto fitting = static_cast<int64_t>(full - work.starts.begin()) - 1;
  const int64_t rows =
      std::min(std::max({fitting, min_rows, int64_t{1}}), static_cast<int64_t>(ids.size()));
  work.refs.resize(static_cast<size_t>(rows));
  work.starts.resize(static_cast<size_t>(rows) + 1);
  return rows;
}

std::vector<ReadRequest> MakeReads(const readers::RecordSource& source, RunWork& work) {
  work.spans.clear();
  if (work.bytes() == 0) return {};  // of a source without bytes
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    if (row > 0 && !work.alone && FollowsInFile(work, row)) {
      work.spans.back().end = row + 1;
    } else {
      work.spans.push_back({row, row + 1});
    }
  }
  if (work.buffer == nullptr) {
    work.buffer.reset(new (std::nothrow) std::byte[static_cast<size_t>(work.bytes())]);
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
    reads.push_back({source.file(ref.shard),
                     ref.offset,
                     {first, work.starts[span.end] - work.starts[span.begin]}});
  }
  return reads;
}

bool NeedsSingleReads(const RunWork& work) {
  for (size_t i = 0; i < work.spans.size(); ++i) {
    if (!work.read_status[i].ok() && work.spans[i].end - work.spans[i].begin > 1) return true;
  }
  return false;
}

}  // namespace millrace::pipeline
