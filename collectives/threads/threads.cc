// Ranks as threads of one process.
//
// Every operation is one meeting: each rank posts its call, the last one compares all calls and
// opens the meeting; then each rank works on its own share of the data directly in its peers'
// memory, and no rank leaves before all are done. Shares are disjoint, so the work needs no lock,
// and each element is reduced by exactly one rank, in rank order: the same bits everywhere by
// construction. Because the last one in sees all calls, ranks that disagree get an error instead of
// a hang. An operation that was begun with a handle is a meeting that is left open: a rank does its
// part when it polls or waits, without a thread of its own.
//
// After an abort, a departed peer or a timeout no rank begins to work in a meeting, and it ends as
// soon as none is at work: a rank that returned early could free memory that its peers still read.

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/core/checks.h"
#include "collectives/core/ordered_reduction.h"
#include "collectives/core/pending.h"
#include "collectives/factory.h"
#include "collectives/threads/thread_group.h"

namespace millrace::collectives {
namespace threads {
namespace {

std::byte* At(void* data, size_t offset) { return static_cast<std::byte*>(data) + offset; }
const std::byte* At(const void* data, size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}

void Copy(const void* from, void* to, size_t bytes) {
  if (from != to && bytes > 0) std::memcpy(to, from, bytes);
}

// Reduces bytes [begin, end) of all ranks' inputs into `outputs`.
void Reduce(const std::vector<Call>& calls, size_t begin, size_t end,
            std::span<std::byte* const> outputs) {
  const Request& request = calls[0].request;
  std::vector<const std::byte*> inputs;
  for (const Call& call : calls) inputs.push_back(At(call.request.in.data, begin));
  ReduceInOrder(request.in.dtype, request.op, inputs, (end - begin) / SizeOf(request.in.dtype),
                outputs);
}

// Reduces the share of `rank` for the ranks that want the result.
void ReduceShare(const std::vector<Call>& calls, int rank) {
  const Request& request = calls[rank].request;
  const bool to_all = request.kind == Collective::kAllReduce;
  const auto [begin, end] = ShareOf(request.in.size_bytes(), rank, static_cast<int>(calls.size()));
  std::vector<std::byte*> outputs;
  for (size_t r = 0; r < calls.size(); ++r) {
    const bool wanted = to_all || static_cast<int>(r) == request.peer;
    if (wanted) outputs.push_back(At(calls[r].request.out.data, begin));
  }
  Reduce(calls, begin, end, outputs);
}

}  // namespace

void Work(const Meeting& meeting, int seat) {
  const std::vector<Call>& calls = meeting.calls;
  const Request& request = calls[seat].request;
  const size_t bytes = request.in.size_bytes();
  const size_t block = bytes / calls.size();
  switch (request.kind) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return ReduceShare(calls, seat);
    case Collective::kReduceScatter: {
      std::byte* const out = At(request.out.data, 0);
      return Reduce(calls, block * seat, block * (seat + 1), {&out, 1});
    }
    case Collective::kAllGather:
      for (size_t r = 0; r < calls.size(); ++r) {
        Copy(calls[r].request.in.data, At(request.out.data, r * bytes), bytes);
      }
      return;
    case Collective::kAllToAll:
      for (size_t r = 0; r < calls.size(); ++r) {
        Copy(At(calls[r].request.in.data, block * seat), At(request.out.data, block * r), block);
      }
      return;
    case Collective::kBroadcast:
      return Copy(calls[request.peer].request.in.data, request.out.data, bytes);
    case Collective::kRecv:
      return Copy(calls[0].request.in.data, request.out.data, request.out.size_bytes());
    default:
      return;  // Send: the receiver copies
  }
}

}  // namespace threads

namespace {

using threads::Begun;
using threads::Call;
using threads::Group;
using threads::Ticket;

// An operation on its way.
class Attendance final : public Pending {
 public:
  Attendance(Ticket ticket, std::shared_ptr<Begun> begun, const WaitLimits& limits)
      : ticket_(std::move(ticket)), begun_(std::move(begun)), limits_(limits) {
    begun_->push_back(&ticket_);
  }
  ~Attendance() override { (void)Wait(); }

  bool Poll() override {
    if (!ended_ && ticket_.group->Poll(*begun_, ticket_, limits_)) {
      End(ticket_.group->Outcome(ticket_));
    }
    return ended_;
  }
  absl::Status Wait() override {
    if (!ended_) End(ticket_.group->Wait(*begun_, ticket_, limits_));
    return outcome_;
  }
  Ticket& ticket() { return ticket_; }

 private:
  void End(const absl::Status& outcome) {
    ended_ = true;
    outcome_ = outcome;
    std::erase(*begun_, &ticket_);
  }

  Ticket ticket_;
  const std::shared_ptr<Begun> begun_;
  const WaitLimits limits_;
  bool ended_ = false;
  absl::Status outcome_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<Begun> begun)
      : group_(std::move(group)), rank_(rank), begun_(std::move(begun)) {}
  ~ThreadCommunicator() override { group_->Leave(rank_, absl::OkStatus(), {}); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return group_->size(); }
  std::string_view backend() const override { return "threads"; }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(const absl::Status& reason) override { group_->Abort(rank_, reason); }
  void Leave(const absl::Status& reason) override { group_->Leave(rank_, reason, *begun_); }
  absl::Status Heard() override { return group_->Heard(); }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override {
    MILLRACE_ASSIGN_OR_RETURN(Ticket ticket, group_->Enter(rank_, {request, arguments}));
    return Attendance(std::move(ticket), begun_, limits()).Wait();
  }
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    absl::StatusOr<Ticket> ticket = group_->Enter(rank_, {request, arguments});
    if (!ticket.ok()) return MakeEnded(ticket.status());
    return std::make_unique<Attendance>(*std::move(ticket), begun_, limits());
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  const std::shared_ptr<Begun> begun_;
};

absl::StatusOr<std::unique_ptr<Communicator>> ThreadCommunicator::Split(int color, int key) {
  Call call;
  call.split = true;
  call.arguments = CheckColor(color);
  call.color = color;
  call.key = key;
  MILLRACE_ASSIGN_OR_RETURN(Ticket ticket, group_->Enter(rank_, call));
  Attendance attendance(std::move(ticket), begun_, limits());
  MILLRACE_RETURN_IF_ERROR(attendance.Wait());
  const auto& [child, rank] = attendance.ticket().meeting->children[rank_];
  auto communicator = std::make_unique<ThreadCommunicator>(child, rank, begun_);
  communicator->set_limits(limits());
  return communicator;
}

// The status of the lowest rank that failed by itself; else of the lowest that failed.
absl::Status FirstFailure(const std::vector<absl::Status>& statuses) {
  absl::Status first;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    if (!threads::IsConsequence(status)) return status;
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(int size) {
  if (size < 1) return {};
  const auto group = std::make_shared<Group>(std::make_shared<threads::Job>(), size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(
        std::make_unique<ThreadCommunicator>(group, rank, std::make_shared<Begun>()));
  }
  return communicators;
}

absl::Status RunRanks(int size, const std::function<absl::Status(Communicator&)>& body) {
  if (size < 1) return absl::InvalidArgumentError(absl::StrCat("a group of ", size, " ranks"));
  return RunGroup(MakeThreadGroup(size), body);
}

absl::Status RunGroup(std::vector<std::unique_ptr<Communicator>> ranks,
                      const std::function<absl::Status(Communicator&)>& body) {
  std::vector<absl::Status> statuses(ranks.size());
  {
    std::vector<std::jthread> running;
    const auto run = [&](size_t i) {
      // Dropped at the body's end, so that peers that still wait for this rank learn of it.
      const std::unique_ptr<Communicator> communicator = std::move(ranks[i]);
      statuses[i] = body(*communicator);
      if (!statuses[i].ok()) communicator->Abort(statuses[i]);
    };
    for (size_t i = 0; i < ranks.size(); ++i) {
      try {
        running.emplace_back(run, i);
      } catch (const std::system_error& error) {
        statuses[i] = absl::ResourceExhaustedError(
            absl::StrCat("no thread for rank ", ranks[i]->rank(), ": ", error.what()));
        ranks[i]->Abort(statuses[i]);
        break;
      }
    }
  }
  return FirstFailure(statuses);
}

}  // namespace millrace::collectives
