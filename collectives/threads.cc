// Ranks as threads of one process.
//
// Every collective is one meeting: each rank posts its call, the last one compares all calls and
// opens the round; then each rank works on its own share of the data directly in its peers' memory,
// and nobody leaves before all are done. Shares are disjoint, so the work needs no lock, and each
// element is reduced by exactly one rank, in rank order: the same bits everywhere by construction.
// Because the last one in sees all calls, ranks that disagree get an error instead of a hang.
//
// While ranks gather, an abort or a departed peer ends the wait. Once a round is open it ends by
// itself (nothing in it waits for anything but memory), so leaving ignores aborts: a rank that
// returned early would free memory that its peers still read.

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/checks_internal.h"
#include "collectives/factory.h"
#include "collectives/reduce_internal.h"
#include "collectives/thread_group_internal.h"

namespace millrace::collectives {
namespace {

using threads::Call;
using threads::Group;
using threads::Kind;

constexpr size_t kCacheLine = 64;
constexpr size_t kReduceBlockBytes = 16 << 10;  // a block of every rank stays in the L1/L2 cache

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~ThreadCommunicator() override { group_->Depart(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return group_->size(); }
  std::string_view backend() const override { return "threads"; }

  absl::Status AllReduce(TensorView data, ReduceOp op) override;
  absl::Status ReduceScatter(TensorView data, ReduceOp op) override;
  absl::Status AllGather(ConstTensorView in, TensorView out) override;
  absl::Status Broadcast(TensorView data, int root) override;
  absl::Status Barrier() override { return group_->Enter(rank_, {}).status(); }
  absl::Status Send(ConstTensorView data, int peer) override {
    MILLRACE_RETURN_IF_ERROR(CheckPeer(data, peer, rank_, size()));
    return group_->Send(rank_, peer, data);
  }
  absl::Status Recv(TensorView data, int peer) override {
    MILLRACE_RETURN_IF_ERROR(CheckPeer(data, peer, rank_, size()));
    return group_->Recv(rank_, peer, data);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(const absl::Status& reason) override { group_->Abort(rank_, reason); }

 private:
  const std::shared_ptr<Group> group_;
  const int rank_;
};

// The call of an operation on `view`; the count is left at 0 when the check failed, because the
// shape may then be unknown.
Call CallOn(Kind kind, absl::Status arguments, const ConstTensorView& view) {
  Call call;
  call.kind = kind;
  call.dtype = view.dtype;
  if (arguments.ok()) call.count = static_cast<size_t>(view.shape.num_elements());
  call.arguments = std::move(arguments);
  return call;
}

std::byte* At(void* data, size_t offset) { return static_cast<std::byte*>(data) + offset; }

// Reduces bytes [begin, end) of all ranks' data in rank order into `out`, block by block, and then
// into every rank's copy when `to_all`.
void ReduceRange(const std::vector<Call>& calls, size_t begin, size_t end, void* out, bool to_all) {
  const size_t element = SizeOf(calls[0].dtype);
  alignas(kCacheLine) std::byte sum[kReduceBlockBytes];
  for (size_t at = begin; at < end; at += kReduceBlockBytes) {
    const size_t bytes = std::min(kReduceBlockBytes, end - at);
    std::memcpy(sum, At(calls[0].data, at), bytes);
    for (size_t r = 1; r < calls.size(); ++r) {
      Accumulate(calls[0].dtype, calls[0].op, sum, At(calls[r].data, at), bytes / element);
    }
    if (!to_all) std::memcpy(At(out, at), sum, bytes);
    for (size_t r = 0; to_all && r < calls.size(); ++r) {
      std::memcpy(At(calls[r].data, at), sum, bytes);
    }
  }
}

absl::Status ThreadCommunicator::AllReduce(TensorView data, ReduceOp op) {
  Call call = CallOn(Kind::kAllReduce, CheckView(data), data);
  call.op = op;
  call.data = data.data;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Call> calls, group_->Enter(rank_, call));
  // Shares are cut at cache lines relative to the data's begin.
  const size_t bytes = data.size_bytes();
  const size_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  const size_t share = (lines + size() - 1) / size() * kCacheLine;
  const size_t begin = std::min(bytes, share * rank_);
  ReduceRange(calls, begin, std::min(bytes, begin + share), nullptr, /*to_all=*/true);
  group_->Leave();
  return absl::OkStatus();
}

absl::Status ThreadCommunicator::ReduceScatter(TensorView data, ReduceOp op) {
  Call call = CallOn(Kind::kReduceScatter, CheckBlocks(data, size()), data);
  call.op = op;
  call.data = data.data;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Call> calls, group_->Enter(rank_, call));
  const size_t block = data.size_bytes() / size();
  ReduceRange(calls, block * rank_, block * (rank_ + 1), data.data, /*to_all=*/false);
  group_->Leave();
  return absl::OkStatus();
}

absl::Status ThreadCommunicator::AllGather(ConstTensorView in, TensorView out) {
  Call call = CallOn(Kind::kAllGather, CheckGather(in, out, size()), in);
  call.in = in.data;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Call> calls, group_->Enter(rank_, call));
  const size_t block = in.size_bytes();
  for (size_t r = 0; block > 0 && r < calls.size(); ++r) {
    std::byte* to = At(out.data, r * block);
    if (to != calls[r].in) std::memcpy(to, calls[r].in, block);  // equal: gathered in place
  }
  group_->Leave();
  return absl::OkStatus();
}

absl::Status ThreadCommunicator::Broadcast(TensorView data, int root) {
  Call call = CallOn(Kind::kBroadcast, CheckRooted(data, root, size()), data);
  call.root = root;
  call.in = data.data;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Call> calls, group_->Enter(rank_, call));
  if (rank_ != root && data.size_bytes() > 0) {
    std::memcpy(data.data, calls[root].in, data.size_bytes());
  }
  group_->Leave();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> ThreadCommunicator::Split(int color, int key) {
  Call call;
  call.kind = Kind::kSplit;
  call.arguments = CheckColor(color);
  call.color = color;
  call.key = key;
  MILLRACE_RETURN_IF_ERROR(group_->Enter(rank_, call).status());
  auto [child, rank] = group_->TakeChild(rank_);
  return std::make_unique<ThreadCommunicator>(std::move(child), rank);
}

// The lowest rank that failed by itself; else the lowest that failed.
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
  const auto group = std::make_shared<Group>(std::make_shared<threads::Job>(), size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  }
  return communicators;
}

absl::Status RunRanks(int size, const std::function<absl::Status(Communicator&)>& body) {
  if (size < 1) return absl::InvalidArgumentError(absl::StrCat("a group of ", size, " ranks"));
  std::vector<std::unique_ptr<Communicator>> communicators = MakeThreadGroup(size);
  std::vector<absl::Status> statuses(size);
  {
    std::vector<std::jthread> running;
    const auto run = [&](int rank) {
      // Dropped at the body's end, so that peers that still wait for this rank learn of it.
      const std::unique_ptr<Communicator> communicator = std::move(communicators[rank]);
      statuses[rank] = body(*communicator);
      if (!statuses[rank].ok()) communicator->Abort(statuses[rank]);
    };
    for (int rank = 0; rank < size; ++rank) {
      try {
        running.emplace_back(run, rank);
      } catch (const std::system_error& error) {
        statuses[rank] = absl::ResourceExhaustedError(
            absl::StrCat("no thread for rank ", rank, ": ", error.what()));
        communicators[rank]->Abort(statuses[rank]);
        break;
      }
    }
  }
  return FirstFailure(statuses);
}

}  // namespace millrace::collectives
