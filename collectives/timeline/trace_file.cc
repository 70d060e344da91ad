#include "collectives/timeline/trace_file.h"

#include <algorithm>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/chrome_trace.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

constexpr std::string_view kBegin = kChromeTraceBegin;
constexpr std::string_view kEnd = kChromeTraceEnd;
constexpr size_t kCopyBytes = size_t{1} << 20;
constexpr size_t kBufferBytes = size_t{64} << 10;

const char* Name(Line line) { return line == Line::kCompute ? "compute" : "reducer"; }

const char* Name(Event event) {
  switch (event) {
    case Event::kReading:
      return "reading";
    case Event::kBackward:
      return "backward";
    case Event::kBucketReady:
      return "bucket ready";
    case Event::kWaiting:
      return "waiting";
    case Event::kReducing:
      return "reducing";
    case Event::kExchanging:
      return "exchanging";
    case Event::kBucketUsed:
      return "bucket used";
  }
  return "unknown";
}

void NameRank(int rank, uint64_t num_dropped, ChromeEvents& events) {
  const std::string dropped =
      num_dropped == 0 ? "" : absl::StrCat(" (", num_dropped, " older events dropped)");
  events.NameProcess(rank, absl::StrCat("rank ", rank, dropped));
  for (const Line line : {Line::kCompute, Line::kReducer}) {
    events.NameThread(rank, static_cast<int>(line), Name(line));
  }
}

void AddEntry(int rank, const Timeline::Entry& entry, int64_t offset, ChromeEvents& events) {
  std::string args = absl::StrCat("\"step\": ", entry.step);
  if (entry.bucket >= 0) absl::StrAppend(&args, ", \"bucket\": ", entry.bucket);
  if (entry.peer >= 0) absl::StrAppend(&args, ", \"waits for rank\": ", entry.peer);
  events.Add(rank, static_cast<int>(entry.line), Name(entry.event), entry.begin_ns + offset,
             entry.end_ns + offset, args);
}

// `size` bytes of the file from `begin` on; fewer where it ends.
std::string ReadAt(std::ifstream& file, int64_t begin, size_t size) {
  std::string text(size, '\0');
  file.seekg(begin);
  file.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

}  // namespace

void AddTimeline(int rank, const Timeline& timeline, int64_t offset, ChromeEvents& events) {
  NameRank(rank, timeline.num_dropped(), events);
  for (const Timeline::Entry& entry : timeline.entries()) AddEntry(rank, entry, offset, events);
}

void TraceFile::Begin() {
  absl::StatusOr<std::unique_ptr<AtomicFile>> file = AtomicFile::Create(path_);
  status_ = Annotate(file.status(), path_);
  if (file.ok()) file_ = *std::move(file);
  Write(kBegin);
}

void TraceFile::AddRank(int rank, uint64_t num_dropped) {
  ChromeEvents events;
  NameRank(rank, num_dropped, events);
  Write(events.text());
}

void TraceFile::Add(int rank, const Timeline::Entry& entry, int64_t offset) {
  ChromeEvents events;
  AddEntry(rank, entry, offset, events);
  Write(events.text());
}

void TraceFile::Add(int rank, const Timeline& timeline, int64_t offset) {
  AddRank(rank, timeline.num_dropped());
  for (const Timeline::Entry& entry : timeline.entries()) Add(rank, entry, offset);
}

absl::Status TraceFile::AddAllOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<int64_t>(file.tellg());
  const auto begin = static_cast<int64_t>(kBegin.size());
  const int64_t end = size - static_cast<int64_t>(kEnd.size());
  if (!file.is_open() || end < begin || ReadAt(file, 0, kBegin.size()) != kBegin ||
      ReadAt(file, end, kEnd.size()) != kEnd) {
    return absl::DataLossError(absl::StrCat(path, ": not a whole timeline"));
  }
  for (int64_t at = begin; at < end;) {
    const std::string text = ReadAt(file, at, std::min<size_t>(kCopyBytes, end - at));
    // Events that are written already cannot be taken back.
    if (text.empty()) status_.Update(absl::DataLossError(absl::StrCat(path, ": cannot be read")));
    if (text.empty()) return status_;
    Write(text);
    at += static_cast<int64_t>(text.size());
  }
  return absl::OkStatus();
}

absl::Status TraceFile::End() {
  Write(kEnd);
  Flush();
  if (status_.ok()) status_ = file_->Commit(/*sync=*/false);
  return status_;
}

void TraceFile::Write(std::string_view text) {
  unwritten_ += text;
  if (unwritten_.size() >= kBufferBytes) Flush();
}

void TraceFile::Flush() {
  if (status_.ok()) status_ = file_->Append(std::as_bytes(std::span(unwritten_)));
  unwritten_.clear();
}

}  // namespace millrace::collectives
