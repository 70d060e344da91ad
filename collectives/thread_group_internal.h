#ifndef MILLRACE_COLLECTIVES_THREAD_GROUP_INTERNAL_H_
#define MILLRACE_COLLECTIVES_THREAD_GROUP_INTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/tensor.h"
#include "collectives/communicator.h"

// Where the ranks of a thread group meet.
namespace millrace::collectives::threads {

// True for a status that only reports another rank's abort.
bool IsConsequence(const absl::Status& status);

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier, kSplit };

// What one rank brings to a meeting.
struct Call {
  Kind kind = Kind::kBarrier;
  absl::Status arguments;  // the rank's own check; a bad call fails on all ranks
  DType dtype = DType::kU8;
  size_t count = 0;  // elements
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  void* data = nullptr;      // written
  const void* in = nullptr;  // read
  int color = 0;             // Split: may differ between ranks
  int key = 0;
};

// One per MakeThreadGroup, shared by all groups split from it: an abort ends them all.
struct Job {
  Mutex mu;  // guards every group of the job
  CondVar changed;
  absl::Status aborted;  // guarded by mu, through the groups' reference to it
};

// Thread-safe.
class Group {
 public:
  Group(std::shared_ptr<Job> job, int size)
      : size_(size),
        job_(std::move(job)),
        mu_(job_->mu),
        calls_(size),
        children_(size),
        gone_(size),
        slots_(static_cast<size_t>(size) * size) {}

  int size() const { return size_; }

  // Posts the call of `rank` and waits for the others'. Returns all calls once the round is open.
  absl::StatusOr<std::vector<Call>> Enter(int rank, const Call& call);
  // Ends the round; returns when all ranks have.
  void Leave();
  // The seat of `rank` in the group that the Split just entered has made.
  std::pair<std::shared_ptr<Group>, int> TakeChild(int rank);

  absl::Status Send(int rank, int peer, const ConstTensorView& data);
  absl::Status Recv(int rank, int peer, const TensorView& data);

  void Abort(int rank, const absl::Status& reason);
  void Depart(int rank);

 private:
  // A message on its way. Rendezvous: the sender waits until the receiver has copied.
  struct Slot {
    enum State { kEmpty, kPosted, kTaking, kDone, kMismatch };
    State state = kEmpty;
    ConstTensorView data;
  };

  absl::Status Broken() const MILLRACE_REQUIRES(mu_);
  absl::Status BrokenPair(int peer) const MILLRACE_REQUIRES(mu_);
  void MakeChildren() MILLRACE_REQUIRES(mu_);
  Slot& SlotOf(int from, int to) MILLRACE_REQUIRES(mu_) {
    return slots_[static_cast<size_t>(from) * size_ + to];
  }

  // Constant after construction.
  const int size_;
  const std::shared_ptr<Job> job_;

  Mutex& mu_;  // the job's
  std::vector<Call> calls_ MILLRACE_GUARDED_BY(mu_);
  int entered_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t opened_rounds_ MILLRACE_GUARDED_BY(mu_) = 0;
  absl::Status outcome_ MILLRACE_GUARDED_BY(mu_);  // of the round opened last
  int left_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t closed_rounds_ MILLRACE_GUARDED_BY(mu_) = 0;
  std::vector<std::pair<std::shared_ptr<Group>, int>> children_ MILLRACE_GUARDED_BY(mu_);
  std::vector<bool> gone_ MILLRACE_GUARDED_BY(mu_);  // by rank: its communicator is destroyed
  std::vector<Slot> slots_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::collectives::threads

#endif  // MILLRACE_COLLECTIVES_THREAD_GROUP_INTERNAL_H_
