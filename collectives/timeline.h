#ifndef MILLRACE_COLLECTIVES_TIMELINE_H_
#define MILLRACE_COLLECTIVES_TIMELINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/chrome_trace.h"
#include "base/mutex.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// The lines of a rank in the timeline's picture.
enum class Line : uint32_t { kCompute, kReducer };

// The events that the picture shows.
enum class Event : uint32_t {
  kReading,  // waiting for the next batch
  kBackward,
  kBucketReady,  // an instant: all gradients of the bucket are there
  kWaiting,      // for a peer
  kReducing,
  kExchanging,  // with other hosts
  kBucketUsed,  // the optimizer reads the bucket
};

// Records what one rank did and when, for chrome://tracing and Perfetto. Keeps the newest events.
// Thread-safe.
class Timeline {
 public:
  struct Entry {
    int64_t begin_ns = 0;  // a time of Now()
    int64_t end_ns = 0;    // the same as begin_ns: an instant
    int64_t step = -1;
    int32_t bucket = -1;  // -1: none
    int32_t peer = -1;    // the rank waited for; -1: none
    Line line = Line::kCompute;
    Event event = Event::kBackward;
  };

  // Memory grows by sizeof(Entry) = 40 bytes with each event up to `max_events`.
  explicit Timeline(size_t max_events = size_t{1} << 20) : max_events_(max_events) {}

  // From now on nothing is added.
  void Stop() MILLRACE_EXCLUDES(mu_);

  // Nanoseconds of this host's monotonic clock.
  static int64_t Now();
  using Clock = int64_t (*)();

  void Add(const Entry& entry) MILLRACE_EXCLUDES(mu_);

  // The events kept, the oldest first, and how many older ones were dropped.
  std::vector<Entry> entries() const MILLRACE_EXCLUDES(mu_);
  uint64_t num_dropped() const MILLRACE_EXCLUDES(mu_);

 private:
  const size_t max_events_;
  mutable Mutex mu_;
  std::vector<Entry> newest_ MILLRACE_GUARDED_BY(mu_);
  uint64_t num_added_ MILLRACE_GUARDED_BY(mu_) = 0;
  bool stopped_ MILLRACE_GUARDED_BY(mu_) = false;
};

// Adds the events of `rank` as a process of the picture, each Line as one of its threads. `offset`
// takes the rank's clock to rank 0's.
void AddTimeline(int rank, const Timeline& timeline, int64_t offset, ChromeEvents& events);

// The nanoseconds by which rank 0's clock is ahead of this rank's, as the fastest of a few
// exchanges measures it. Collective. `clock` is this rank's clock, for tests to replace.
absl::StatusOr<int64_t> ClockOffset(Communicator& communicator,
                                    Timeline::Clock clock = &Timeline::Now);

// Writes the timelines of all ranks to the one file `path` on rank 0, in the Chrome trace format,
// all times on rank 0's clock; a rank is a process of the picture, a Line one of its threads.
// `clock` as for ClockOffset. Collective; every rank returns rank 0's outcome.
//   UNKNOWN etc.  the file cannot be written (errno's code and text)
absl::Status WriteTimeline(Communicator& communicator, const Timeline& timeline,
                           const std::string& path, Timeline::Clock clock = &Timeline::Now);

// After the loss of a peer the ranks cannot talk any more, but ranks that share a file system see
// each other's files: each writes a part, and one of them puts the parts together. No call here is
// collective. `offset` is the value of ClockOffset from before the loss.
struct TimelinePart {
  int rank = 0;
  const Timeline* timeline = nullptr;
  int64_t offset = 0;
  std::string path;  // the path of the file of all ranks

  // "PATH.rank-3": a whole Chrome trace of the rank alone.
  std::string FileOf(int of_rank) const;

  // Removes the part that an earlier run has left.
  void Forget() const;
  //   UNKNOWN etc.  the file cannot be written (errno's code and text)
  absl::Status Write() const;
  // Writes `path` from this rank's events and the parts of `peers`, then removes the parts. Waits
  // at most `limit` for missing parts and then leaves them out; returns the ranks that are in the
  // file, ascending. A part that comes later stays as a trace of its own until its rank's next
  // Forget or Write.
  //   UNKNOWN etc.  the file cannot be written (errno's code and text)
  absl::StatusOr<std::vector<int>> Merge(const std::vector<int>& peers,
                                         std::chrono::milliseconds limit) const;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_TIMELINE_H_
