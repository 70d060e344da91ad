#ifndef MILLRACE_COLLECTIVES_THREADS_THREAD_GROUP_H_
#define MILLRACE_COLLECTIVES_THREADS_THREAD_GROUP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "collectives/communicator.h"
#include "collectives/core/call_summary.h"

// The meetings of the ranks of a thread group.
namespace millrace::collectives::threads {

class Group;

// Marks a status, which must not be OK, as one that only reports another rank's failure.
absl::Status MarkConsequence(absl::Status status);
bool IsConsequence(const absl::Status& status);

// The call that one rank brings to a meeting.
struct Call {
  Request request;
  absl::Status arguments;  // the rank's own check; a bad call fails on all ranks
  bool split = false;      // true for a Split: color and key may differ between ranks
  int color = 0;
  int key = 0;

  CallSummary Summary() const {
    return split ? SummarizeSplit(arguments) : Summarize(request, arguments);
  }
};

// One operation of all ranks that take part: a seat per rank, or the seats of a sender (0) and a
// receiver (1). The job's mutex guards all members; but once the meeting is open, `calls` does not
// change, and ranks that work read it without the mutex.
struct Meeting {
  enum State { kGathering, kOpen, kEnded };

  explicit Meeting(std::vector<int> ranks_in)
      : ranks(std::move(ranks_in)),
        calls(ranks.size()),
        entered(ranks.size()),
        done(ranks.size()) {}

  const std::vector<int> ranks;  // the ranks, by seat
  State state = kGathering;
  std::vector<Call> calls;
  std::vector<bool> entered;
  std::vector<bool> done;  // by seat: true if its part of the work is done
  int working = 0;         // the number of seats at work
  absl::Status outcome;    // not OK: the meeting ends as soon as no seat is at work
  std::vector<std::pair<std::shared_ptr<Group>, int>> children;  // new group and rank, of a Split
};

// A rank's part in a meeting.
struct Ticket {
  std::shared_ptr<Group> group;
  std::shared_ptr<Meeting> meeting;
  int seat = 0;
  std::optional<std::chrono::steady_clock::time_point> waited_since;
};

// The operations that one rank has begun and that have not ended, in all groups that were split
// from each other. A rank that waits for one of them does its part of all: a peer may wait for any
// of them first. Thread-compatible: used by the rank's thread.
using Begun = std::vector<Ticket*>;

// The state that all groups split from one MakeThreadGroup share: an abort ends them all.
struct Job {
  Mutex mu;  // guards every group of the job
  CondVar changed;
  absl::Status aborted;  // guarded by mu, through the groups' reference to it
};

// Thread-safe.
class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(std::shared_ptr<Job> job, int size);

  int size() const { return size_; }

  // Takes this rank's seat in the meeting that its call belongs to. The last rank to enter compares
  // the calls and opens the meeting.
  absl::StatusOr<Ticket> Enter(int rank, const Call& call);

  // Does this rank's part of each open meeting in `begun`; true when that of `ticket` has ended.
  bool Poll(const Begun& begun, Ticket& ticket, const WaitLimits& limits);
  absl::Status Wait(const Begun& begun, Ticket& ticket, const WaitLimits& limits);
  absl::Status Outcome(const Ticket& ticket);

  void Abort(int rank, const absl::Status& reason);
  // `reason` OK: the rank's communicator is destroyed. `begun` is that of the rank.
  void Leave(int rank, const absl::Status& reason, const Begun& begun);
  // Communicator::Heard.
  absl::Status Heard();

 private:
  using Clock = std::chrono::steady_clock;

  // Meetings of the same seats, in the order of the calls.
  struct Line {
    std::deque<std::shared_ptr<Meeting>> gathering;
    uint64_t first = 0;          // number of the first meeting in `gathering`
    std::vector<uint64_t> next;  // by seat: number of the meeting to enter next
  };

  absl::Status Broken() const MILLRACE_REQUIRES(mu_);
  std::shared_ptr<Meeting> EnterLine(Line& line, const std::vector<int>& ranks, int seat,
                                     const Call& call) MILLRACE_REQUIRES(mu_);
  void Open(Meeting& meeting) MILLRACE_REQUIRES(mu_);
  void MakeChildren(Meeting& meeting) MILLRACE_REQUIRES(mu_);
  void Fail(Meeting& meeting, const absl::Status& status) MILLRACE_REQUIRES(mu_);
  // Fails the meeting if it can no longer end.
  void Look(Meeting& meeting) MILLRACE_REQUIRES(mu_);
  static void LookAt(const Ticket& ticket);
  void WorkOn(const Begun& begun) MILLRACE_REQUIRES(mu_);
  void Sleep(const Ticket& ticket, const WaitLimits& limits) MILLRACE_REQUIRES(mu_);
  void CheckLimits(Ticket& ticket, const WaitLimits& limits) MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const int size_;
  const std::shared_ptr<Job> job_;
  std::vector<int> ranks_;

  Mutex& mu_;  // the job's
  Line collectives_ MILLRACE_GUARDED_BY(mu_);
  std::map<std::pair<int, int>, Line> pairs_ MILLRACE_GUARDED_BY(mu_);  // by sender and receiver
  // By rank: not OK once the rank has left, or its communicator is destroyed.
  std::vector<absl::Status> gone_ MILLRACE_GUARDED_BY(mu_);
  absl::Status broken_
      MILLRACE_GUARDED_BY(mu_);  // by a wait whose timeout passed or whose watch failed
};

// Does the part of `seat` in an open meeting: reads and writes its peers' memory; each byte is
// written by one seat only.
void Work(const Meeting& meeting, int seat);

}  // namespace millrace::collectives::threads

#endif  // MILLRACE_COLLECTIVES_THREADS_THREAD_GROUP_H_
