#include "collectives/timeline.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/timeline/trace_file.h"

namespace millrace::collectives {
namespace {

constexpr int kExchanges = 16;
constexpr size_t kEntriesPerMessage = size_t{64} << 10;

TensorView Whole(int64_t& value) { return {&value, DType::kI64, Shape{1}}; }

// Rank 0's side: tells `peer` the time as often as it asks.
absl::Status TellTime(Communicator& communicator, int peer, Timeline::Clock clock) {
  for (int i = 0; i < kExchanges; ++i) {
    int64_t value = 0;
    MILLRACE_RETURN_IF_ERROR(communicator.Recv(Whole(value), peer));
    value = clock();
    MILLRACE_RETURN_IF_ERROR(communicator.Send(Whole(value), peer));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> AskTime(Communicator& communicator, Timeline::Clock clock) {
  int64_t shortest = std::numeric_limits<int64_t>::max();
  int64_t offset = 0;
  for (int i = 0; i < kExchanges; ++i) {
    int64_t begin = clock();
    int64_t theirs = 0;
    MILLRACE_RETURN_IF_ERROR(communicator.Send(Whole(begin), 0));
    MILLRACE_RETURN_IF_ERROR(communicator.Recv(Whole(theirs), 0));
    const int64_t took = clock() - begin;
    if (took >= shortest) continue;
    shortest = took;
    offset = theirs - (begin + took / 2);
  }
  return offset;
}

TensorView Bytes(std::vector<Timeline::Entry>& entries, size_t first, size_t count) {
  return {entries.data() + first, DType::kU8,
          Shape{static_cast<int64_t>(count * sizeof(Timeline::Entry))}};
}

// The numbers that a rank tells before its events.
struct Header {
  int64_t num_entries = 0;
  int64_t num_dropped = 0;
  int64_t offset = 0;
};

TensorView View(Header& header) { return {&header, DType::kI64, Shape{3}}; }

absl::Status SendEntries(Communicator& communicator, Header header,
                         std::vector<Timeline::Entry> entries) {
  MILLRACE_RETURN_IF_ERROR(communicator.Send(View(header), 0));
  for (size_t first = 0; first < entries.size(); first += kEntriesPerMessage) {
    const size_t count = std::min(kEntriesPerMessage, entries.size() - first);
    MILLRACE_RETURN_IF_ERROR(communicator.Send(Bytes(entries, first, count), 0));
  }
  return absl::OkStatus();
}

// Takes all that `rank` sends, also when the file is lost already.
absl::Status ReceiveEntries(Communicator& communicator, int rank, TraceFile& file) {
  Header header;
  MILLRACE_RETURN_IF_ERROR(communicator.Recv(View(header), rank));
  file.AddRank(rank, static_cast<uint64_t>(header.num_dropped));
  std::vector<Timeline::Entry> entries(kEntriesPerMessage);
  for (auto left = static_cast<size_t>(header.num_entries); left > 0;) {
    const size_t count = std::min(kEntriesPerMessage, left);
    MILLRACE_RETURN_IF_ERROR(communicator.Recv(Bytes(entries, 0, count), rank));
    for (size_t i = 0; i < count; ++i) file.Add(rank, entries[i], header.offset);
    left -= count;
  }
  return absl::OkStatus();
}

// Returns what the messages say, and in `written` what the file does.
absl::Status WriteAll(Communicator& communicator, const Timeline& timeline, const std::string& path,
                      absl::Status& written) {
  TraceFile file(path);
  file.Begin();
  file.AddRank(0, timeline.num_dropped());
  for (const Timeline::Entry& entry : timeline.entries()) file.Add(0, entry, 0);
  for (int rank = 1; rank < communicator.size(); ++rank) {
    MILLRACE_RETURN_IF_ERROR(ReceiveEntries(communicator, rank, file));
  }
  written = file.End();
  return absl::OkStatus();
}

// Rank 0's `outcome` becomes every rank's.
absl::Status AgreeOn(Communicator& communicator, const absl::Status& outcome,
                     const std::string& path) {
  auto code = static_cast<int64_t>(outcome.code());
  MILLRACE_RETURN_IF_ERROR(communicator.Broadcast(Whole(code), 0));
  if (code == static_cast<int64_t>(absl::StatusCode::kOk)) return absl::OkStatus();
  if (!outcome.ok()) return MarkAgreed(outcome);
  return MarkAgreed(absl::Status(static_cast<absl::StatusCode>(code),
                                 absl::StrCat("rank 0 cannot write the timeline ", path)));
}

}  // namespace

int64_t Timeline::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Timeline::Add(const Entry& entry) {
  const MutexLock lock(mu_);
  if (max_events_ == 0 || stopped_) return;
  if (newest_.size() < max_events_) {
    newest_.push_back(entry);
  } else {
    newest_[num_added_ % max_events_] = entry;
  }
  ++num_added_;
}

void Timeline::Stop() {
  const MutexLock lock(mu_);
  stopped_ = true;
}

std::vector<Timeline::Entry> Timeline::entries() const {
  const MutexLock lock(mu_);
  std::vector<Entry> entries = newest_;
  if (num_added_ > newest_.size()) {
    std::rotate(entries.begin(),
                entries.begin() + static_cast<ptrdiff_t>(num_added_ % newest_.size()),
                entries.end());
  }
  return entries;
}

uint64_t Timeline::num_dropped() const {
  const MutexLock lock(mu_);
  return num_added_ - newest_.size();
}

absl::StatusOr<int64_t> ClockOffset(Communicator& communicator, Timeline::Clock clock) {
  if (communicator.rank() != 0) return AskTime(communicator, clock);
  for (int peer = 1; peer < communicator.size(); ++peer) {
    MILLRACE_RETURN_IF_ERROR(TellTime(communicator, peer, clock));
  }
  return 0;
}

absl::Status WriteTimeline(Communicator& communicator, const Timeline& timeline,
                           const std::string& path, Timeline::Clock clock) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t offset, ClockOffset(communicator, clock));
  if (communicator.rank() == 0) {
    absl::Status written;
    MILLRACE_RETURN_IF_ERROR(WriteAll(communicator, timeline, path, written));
    return AgreeOn(communicator, written, path);
  }
  std::vector<Timeline::Entry> entries = timeline.entries();
  const Header header{static_cast<int64_t>(entries.size()),
                      static_cast<int64_t>(timeline.num_dropped()), offset};
  MILLRACE_RETURN_IF_ERROR(SendEntries(communicator, header, std::move(entries)));
  return AgreeOn(communicator, absl::OkStatus(), path);
}

}  // namespace millrace::collectives
