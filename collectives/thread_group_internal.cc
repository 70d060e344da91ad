#include "collectives/thread_group_internal.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/reduce_internal.h"

namespace millrace::collectives::threads {
namespace {

// Payload of a status that only reports another rank's failure.
constexpr char kConsequenceUrl[] = "type.millrace/consequence-of-peer";

absl::Status Consequence(absl::Status status) {
  status.SetPayload(kConsequenceUrl, absl::Cord());
  return status;
}

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "AllReduce";
    case Kind::kReduceScatter:
      return "ReduceScatter";
    case Kind::kAllGather:
      return "AllGather";
    case Kind::kBroadcast:
      return "Broadcast";
    case Kind::kBarrier:
      return "Barrier";
    case Kind::kSplit:
      return "Split";
  }
  return "unknown";
}

bool Match(const Call& a, const Call& b) {
  return std::tie(a.kind, a.dtype, a.count, a.op, a.root) ==
         std::tie(b.kind, b.dtype, b.count, b.op, b.root);
}

std::string Describe(const Call& call) {
  std::string text = Name(call.kind);
  if (call.kind == Kind::kBarrier || call.kind == Kind::kSplit) return text;
  absl::StrAppend(&text, "(", call.count, " x ", ToAbsl(millrace::Name(call.dtype)));
  if (call.kind == Kind::kBroadcast) absl::StrAppend(&text, ", root ", call.root);
  if (call.kind == Kind::kAllReduce || call.kind == Kind::kReduceScatter) {
    absl::StrAppend(&text, ", ", ToAbsl(collectives::Name(call.op)));
  }
  return text + ")";
}

absl::Status Compare(const std::vector<Call>& calls) {
  for (size_t r = 0; r < calls.size(); ++r) {
    if (!calls[r].arguments.ok()) {
      return Annotate(calls[r].arguments, absl::StrCat("rank ", r, ": ", Name(calls[r].kind)));
    }
  }
  for (size_t r = 1; r < calls.size(); ++r) {
    if (Match(calls[0], calls[r])) continue;
    return absl::InvalidArgumentError(absl::StrCat("the ranks' calls do not match: rank 0 ",
                                                   Describe(calls[0]), ", rank ", r, " ",
                                                   Describe(calls[r])));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsConsequence(const absl::Status& status) {
  return status.GetPayload(kConsequenceUrl).has_value();
}

absl::Status Group::Broken() const {
  MILLRACE_RETURN_IF_ERROR(job_->aborted);
  const auto gone = std::find(gone_.begin(), gone_.end(), true);
  if (gone == gone_.end()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", gone - gone_.begin(), " has left the group"));
}

absl::Status Group::BrokenPair(int peer) const {
  MILLRACE_RETURN_IF_ERROR(job_->aborted);
  if (!gone_[peer]) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", peer, " has left the group"));
}

absl::StatusOr<std::vector<Call>> Group::Enter(int rank, const Call& call) {
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(Broken());
  calls_[rank] = call;
  const uint64_t rounds = opened_rounds_;
  if (++entered_ == size_) {
    entered_ = 0;
    outcome_ = Compare(calls_);
    if (outcome_.ok() && call.kind == Kind::kSplit) MakeChildren();
    ++opened_rounds_;
    job_->changed.NotifyAll();
  }
  while (opened_rounds_ == rounds) {
    MILLRACE_RETURN_IF_ERROR(Broken());
    job_->changed.Wait(mu_);
  }
  MILLRACE_RETURN_IF_ERROR(outcome_);
  return calls_;
}

void Group::Leave() {
  MutexLock lock(mu_);
  const uint64_t rounds = closed_rounds_;
  if (++left_ == size_) {
    left_ = 0;
    ++closed_rounds_;
    job_->changed.NotifyAll();
  }
  while (closed_rounds_ == rounds) job_->changed.Wait(mu_);
}

void Group::MakeChildren() {
  std::vector<int> order(size_);
  for (int r = 0; r < size_; ++r) order[r] = r;
  std::sort(order.begin(), order.end(), [this](int a, int b) MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
    return std::tie(calls_[a].color, calls_[a].key, a) <
           std::tie(calls_[b].color, calls_[b].key, b);
  });
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && calls_[order[end]].color == calls_[order[begin]].color) ++end;
    auto child = std::make_shared<Group>(job_, static_cast<int>(end - begin));
    for (size_t i = begin; i < end; ++i) {
      children_[order[i]] = {child, static_cast<int>(i - begin)};
    }
    begin = end;
  }
}

std::pair<std::shared_ptr<Group>, int> Group::TakeChild(int rank) {
  MutexLock lock(mu_);
  return std::exchange(children_[rank], {});
}

absl::Status Group::Send(int rank, int peer, const ConstTensorView& data) {
  MutexLock lock(mu_);
  MILLRACE_RETURN_IF_ERROR(BrokenPair(peer));
  Slot& slot = SlotOf(rank, peer);
  slot = {Slot::kPosted, data};
  job_->changed.NotifyAll();
  while (slot.state == Slot::kPosted) {
    if (absl::Status broken = BrokenPair(peer); !broken.ok()) {
      slot = {};
      return broken;
    }
    job_->changed.Wait(mu_);
  }
  while (slot.state == Slot::kTaking) job_->changed.Wait(mu_);
  const bool matched = slot.state == Slot::kDone;
  slot = {};
  if (matched) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", peer, " receives another size or element type than rank ", rank, " sends (",
      data.shape.num_elements(), " x ", ToAbsl(millrace::Name(data.dtype)), ")"));
}

absl::Status Group::Recv(int rank, int peer, const TensorView& data) {
  ConstTensorView sent;
  {
    MutexLock lock(mu_);
    Slot& slot = SlotOf(peer, rank);
    while (slot.state != Slot::kPosted) {
      MILLRACE_RETURN_IF_ERROR(BrokenPair(peer));
      job_->changed.Wait(mu_);
    }
    sent = slot.data;
    const bool match = sent.dtype == data.dtype && sent.size_bytes() == data.size_bytes();
    slot.state = match ? Slot::kTaking : Slot::kMismatch;
    if (!match) {
      job_->changed.NotifyAll();
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", peer, " sends ", sent.shape.num_elements(), " x ",
                       ToAbsl(millrace::Name(sent.dtype)), ", rank ", rank, " receives ",
                       data.shape.num_elements(), " x ", ToAbsl(millrace::Name(data.dtype))));
    }
  }
  if (sent.size_bytes() > 0) std::memcpy(data.data, sent.data, sent.size_bytes());
  MutexLock lock(mu_);
  SlotOf(peer, rank).state = Slot::kDone;
  job_->changed.NotifyAll();
  return absl::OkStatus();
}

void Group::Abort(int rank, const absl::Status& reason) {
  MutexLock lock(mu_);
  if (!job_->aborted.ok()) return;
  job_->aborted = Consequence(
      absl::CancelledError(absl::StrCat("aborted by rank ", rank, ": ", reason.ToString())));
  job_->changed.NotifyAll();
}

void Group::Depart(int rank) {
  MutexLock lock(mu_);
  gone_[rank] = true;
  job_->changed.NotifyAll();
}

}  // namespace millrace::collectives::threads
