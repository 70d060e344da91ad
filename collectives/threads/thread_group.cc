#include "collectives/threads/thread_group.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives::threads {
namespace {

// How long a wait sleeps before it asks its watch again.
constexpr std::chrono::milliseconds kWatchTurn{20};

// Payload of a status that only reports another rank's failure.
constexpr char kConsequenceUrl[] = "type.millrace/consequence-of-peer";

bool IsMessage(const Meeting& meeting) {
  return meeting.calls[0].request.kind == Collective::kSend;
}

// True if no work is left once all ranks have come.
bool NeedsNoWork(const Call& call) {
  return call.split || call.request.kind == Collective::kBarrier;
}

absl::Status CompareMessage(const Meeting& meeting) {
  const CallSummary sent = meeting.calls[0].Summary();
  const CallSummary received = meeting.calls[1].Summary();
  if (sent.count == received.count && sent.dtype == received.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", meeting.ranks[0], " calls ",
                                                 Describe(sent), ", rank ", meeting.ranks[1], " ",
                                                 Describe(received)));
}

absl::Status Compare(const Meeting& meeting) {
  if (IsMessage(meeting)) return CompareMessage(meeting);
  std::vector<CallSummary> summaries;
  for (size_t r = 0; r < meeting.calls.size(); ++r) {
    const Call& call = meeting.calls[r];
    summaries.push_back(call.Summary());
    if (!call.arguments.ok()) {
      return Annotate(call.arguments,
                      ToStd(absl::StrCat("rank ", r, ": ", ToAbsl(KindName(summaries[r])))));
    }
  }
  return CompareCalls(summaries);
}

bool Workable(const Ticket& ticket) {
  const Meeting& meeting = *ticket.meeting;
  return meeting.state == Meeting::kOpen && meeting.outcome.ok() && !meeting.done[ticket.seat];
}

}  // namespace

absl::Status MarkConsequence(absl::Status status) {
  status.SetPayload(kConsequenceUrl, absl::Cord());
  return status;
}

bool IsConsequence(const absl::Status& status) {
  return status.GetPayload(kConsequenceUrl).has_value();
}

Group::Group(std::shared_ptr<Job> job, int size)
    : size_(size), job_(std::move(job)), ranks_(size), mu_(job_->mu), gone_(size) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
}

absl::Status Group::Broken() const {
  MILLRACE_RETURN_IF_ERROR(job_->aborted);
  return broken_;
}

absl::Status Group::Heard() {
  MutexLock lock(mu_);
  absl::Status heard = Broken();
  for (const absl::Status& gone : gone_) {
    if (IsConsequence(gone)) heard.Update(gone);  // else the rank is merely done with the group
  }
  return heard;
}

absl::StatusOr<Ticket> Group::Enter(int rank, const Call& call) {
  const Request& request = call.request;
  const bool sends = request.kind == Collective::kSend && !call.split;
  const bool receives = request.kind == Collective::kRecv && !call.split;
  if (sends || receives) MILLRACE_RETURN_IF_ERROR(call.arguments);
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(Broken());
  MILLRACE_RETURN_IF_ERROR(gone_[rank]);
  Ticket ticket;
  ticket.group = shared_from_this();
  if (sends || receives) {
    ticket.seat = receives ? 1 : 0;
    const std::pair<int, int> pair =
        sends ? std::pair(rank, request.peer) : std::pair(request.peer, rank);
    ticket.meeting = EnterLine(pairs_[pair], {pair.first, pair.second}, ticket.seat, call);
  } else {
    ticket.seat = rank;
    ticket.meeting = EnterLine(collectives_, ranks_, rank, call);
  }
  return ticket;
}

std::shared_ptr<Meeting> Group::EnterLine(Line& line, const std::vector<int>& ranks, int seat,
                                          const Call& call) {
  line.next.resize(ranks.size());
  const size_t place = line.next[seat]++ - line.first;
  if (place == line.gathering.size()) line.gathering.push_back(std::make_shared<Meeting>(ranks));
  const std::shared_ptr<Meeting> meeting = line.gathering[place];
  meeting->calls[seat] = call;
  meeting->entered[seat] = true;
  const auto& entered = meeting->entered;
  if (std::find(entered.begin(), entered.end(), false) == entered.end()) {
    line.gathering.pop_front();  // each rank that is here was in all meetings before
    ++line.first;
    if (meeting->outcome.ok()) Open(*meeting);
  }
  return meeting;
}

void Group::Open(Meeting& meeting) {
  meeting.outcome = Compare(meeting);
  meeting.done[0] = IsMessage(meeting);  // the receiver copies
  const bool ends = !meeting.outcome.ok() || NeedsNoWork(meeting.calls[0]);
  if (meeting.outcome.ok() && meeting.calls[0].split) MakeChildren(meeting);
  meeting.state = ends ? Meeting::kEnded : Meeting::kOpen;
  job_->changed.NotifyAll();
}

void Group::MakeChildren(Meeting& meeting) {
  std::vector<int> order = ranks_;
  const std::vector<Call>& calls = meeting.calls;
  std::sort(order.begin(), order.end(), [&calls](int a, int b) {
    return std::tie(calls[a].color, calls[a].key, a) < std::tie(calls[b].color, calls[b].key, b);
  });
  meeting.children.resize(order.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && calls[order[end]].color == calls[order[begin]].color) ++end;
    auto child = std::make_shared<Group>(job_, static_cast<int>(end - begin));
    for (size_t i = begin; i < end; ++i) {
      meeting.children[order[i]] = {child, static_cast<int>(i - begin)};
    }
    begin = end;
  }
}

void Group::Fail(Meeting& meeting, const absl::Status& status) {
  if (meeting.outcome.ok()) meeting.outcome = status;
  if (meeting.working == 0) meeting.state = Meeting::kEnded;
  job_->changed.NotifyAll();
}

void Group::Look(Meeting& meeting) {
  if (meeting.state == Meeting::kEnded || !meeting.outcome.ok()) return;
  absl::Status broken = Broken();
  for (size_t seat = 0; seat < meeting.ranks.size() && broken.ok(); ++seat) {
    const int rank = meeting.ranks[seat];
    if (!meeting.done[seat]) broken = gone_[rank];
  }
  if (!broken.ok()) Fail(meeting, broken);
}

// All groups of a rank have one job, and so one mutex.
void Group::LookAt(const Ticket& ticket) MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
  ticket.group->Look(*ticket.meeting);
}

// No rank begins to work in a meeting that has failed, and it ends when the last rank at work is
// done: a rank that returned earlier could free memory that the others read and write.
void Group::WorkOn(const Begun& begun) {
  for (Ticket* const ticket : begun) {
    Meeting& meeting = *ticket->meeting;
    LookAt(*ticket);
    if (!Workable(*ticket)) continue;
    ++meeting.working;
    mu_.Unlock();
    Work(meeting, ticket->seat);
    mu_.Lock();
    --meeting.working;
    meeting.done[ticket->seat] = true;
    const bool all =
        std::find(meeting.done.begin(), meeting.done.end(), false) == meeting.done.end();
    if (all || (!meeting.outcome.ok() && meeting.working == 0)) {
      meeting.state = Meeting::kEnded;
      job_->changed.NotifyAll();
    }
  }
}

void Group::CheckLimits(Ticket& ticket, const WaitLimits& limits) {
  Meeting& meeting = *ticket.meeting;
  if (!meeting.outcome.ok()) return;
  if (const absl::Status status = limits.watch ? limits.watch() : absl::OkStatus(); !status.ok()) {
    broken_ = MarkConsequence(status);
    return Fail(meeting, broken_);
  }
  const std::chrono::nanoseconds timeout = limits.timeout;
  if (timeout <= std::chrono::nanoseconds(0)) return;
  if (Clock::now() - *ticket.waited_since < timeout) return;
  const std::vector<bool>& there =
      meeting.state == Meeting::kGathering ? meeting.entered : meeting.done;
  std::vector<int> missing;
  for (size_t seat = 0; seat < there.size(); ++seat) {
    if (!there[seat]) missing.push_back(meeting.ranks[seat]);
  }
  const std::string text = TimeoutText(meeting.ranks[ticket.seat],
                                       KindName(meeting.calls[ticket.seat].Summary()), timeout);
  broken_ = absl::DeadlineExceededError(absl::StrCat(text, "; ", MissingText(missing)));
  Fail(meeting, broken_);
}

bool Group::Poll(const Begun& begun, Ticket& ticket, const WaitLimits& limits) {
  MutexLock lock(mu_);
  if (!ticket.waited_since.has_value()) ticket.waited_since = Clock::now();
  WorkOn(begun);
  if (ticket.meeting->state != Meeting::kEnded) CheckLimits(ticket, limits);
  return ticket.meeting->state == Meeting::kEnded;
}

absl::Status Group::Wait(const Begun& begun, Ticket& ticket, const WaitLimits& limits) {
  MutexLock lock(mu_);
  ticket.waited_since = Clock::now();
  const Meeting& meeting = *ticket.meeting;
  for (;;) {
    WorkOn(begun);
    if (meeting.state == Meeting::kEnded) return meeting.outcome;
    // Meetings that were opened while this rank worked wait for it.
    if (std::any_of(begun.begin(), begun.end(), [](Ticket* other) { return Workable(*other); })) {
      continue;
    }
    CheckLimits(ticket, limits);
    if (meeting.state == Meeting::kEnded) return meeting.outcome;
    Sleep(ticket, limits);
  }
}

void Group::Sleep(const Ticket& ticket, const WaitLimits& limits) {
  constexpr std::chrono::nanoseconds kForEver = std::chrono::hours(1);
  std::chrono::nanoseconds limit = limits.watch ? kWatchTurn : kForEver;
  if (limits.timeout > std::chrono::nanoseconds(0)) {
    limit = std::min<std::chrono::nanoseconds>(
        limit, limits.timeout - (Clock::now() - *ticket.waited_since));
  }
  job_->changed.WaitFor(mu_, limit);
}

absl::Status Group::Outcome(const Ticket& ticket) {
  MutexLock lock(mu_);
  return ticket.meeting->outcome;
}

void Group::Abort(int rank, const absl::Status& reason) {
  MutexLock lock(mu_);
  if (!job_->aborted.ok()) return;
  job_->aborted = MarkConsequence(
      absl::CancelledError(absl::StrCat("aborted by rank ", rank, ": ", reason.ToString())));
  job_->changed.NotifyAll();
}

void Group::Leave(int rank, const absl::Status& reason, const Begun& begun) {
  MutexLock lock(mu_);
  if (gone_[rank].ok()) {
    gone_[rank] = reason.ok()
                      ? absl::UnavailableError(absl::StrCat("rank ", rank, " has left the group"))
                      : MarkConsequence(reason);
  }
  for (Ticket* const ticket : begun) {
    Meeting& meeting = *ticket->meeting;
    if (ticket->group.get() == this && meeting.state != Meeting::kEnded) Fail(meeting, gone_[rank]);
  }
  job_->changed.NotifyAll();
}

}  // namespace millrace::collectives::threads
