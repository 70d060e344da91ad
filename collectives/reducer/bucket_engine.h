#ifndef MILLRACE_COLLECTIVES_REDUCER_BUCKET_ENGINE_H_
#define MILLRACE_COLLECTIVES_REDUCER_BUCKET_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "collectives/core/sum_kernels.h"
#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer/exact_exchange.h"
#include "collectives/reducer/host_engine.h"
#include "collectives/reducer/private_options.h"

namespace millrace::collectives {

// The reductions of gradients that live in their host's buckets. Buckets are taken in plan order,
// each as soon as all ranks of the host have published it:
//   one host       sum the own share of all copies in rank order, store it into every copy: done
//   several hosts  sum the own share into the own copy, begin its exchange between hosts; when that
//                  has ended, store it into every copy: done
//   exact          exchange the shares of all copies, sum those of all ranks in rank order, store
class BucketEngine final : public HostEngine {
 public:
  BucketEngine(const BucketPlan& plan, HostLinks& links, const PrivateReducerOptions& options,
               Waiting waiting);

  absl::Status Poll(bool counts) override;
  absl::Status Drain() override;
  absl::Status Follow() override;
  absl::Status AwaitDone(uint32_t base) override;
  Range OwnPart(size_t bucket) const override;
  absl::Status GatherParts(uint32_t count) override;
  void KeepMemory() override;

 private:
  struct Exchange {
    size_t bucket = 0;
    std::vector<std::unique_ptr<Pending>> pending;
    bool of_squares = false;  // true if not of gradients; the bucket is the last one

    bool Poll();
    absl::Status Wait();
  };

  bool ArePublished(size_t bucket) const;
  // True if the next bucket may begin; an exact exchange is alone on its way.
  bool CanBegin() const {
    return begun_ < plan_.buckets.size() && (exact_ == nullptr || exchanges_.empty()) &&
           ArePublished(begun_);
  }
  absl::Status AwaitPublished(size_t bucket);
  // With `poll` it does not wait: false if it would have to. An exact exchange may go on
  // afterwards.
  absl::StatusOr<bool> EndFirstExchange(bool poll);
  void Begin(size_t bucket);
  void BeginExchange(size_t bucket);
  // False: the bucket is summed.
  bool GoOnExactly(Exchange& exchange);
  // Begins the sum of all hosts' `data`.
  std::unique_ptr<Pending> AddHosts(const TensorView& data);
  void BeginScatter(const TensorView& share, Exchange& exchange);
  // Polls the first exchange until it has ended, if others have work or a Progress watches.
  absl::Status PollFirstExchange();
  void CountRows();
  // With `shard`, the elements of a share of `count` that each host but the last one has.
  size_t BlockOf(size_t count) const;
  bool AddsSquaresOfHosts() const {
    return options_.shard && links_.cross != nullptr && wants_squares();
  }
  void BeginSquares(size_t bucket);
  absl::Status GatherBetweenHosts(size_t bucket);
  // The sum of the share, in the own copy, goes to all copies.
  void Store(size_t bucket);
  enum class To { kOwnCopy, kOwnCopyAtLast, kAllCopies };
  // Sums `range` of all copies, or takes it from the own one. "At last" means that it is divided
  // and its squares are added up too.
  void Sum(const Range& range, DType dtype, bool from_all, To to);
  // Called after Store; the last bucket may still have squares to exchange.
  void Reduced(size_t bucket);
  // Called by the thread, which has reduced `count` buckets and whose next one is full.
  void TellWaiting(uint32_t count);
  // Called by the thread. Returns the number of buckets of all steps that are begun.
  absl::StatusOr<uint32_t> ReduceWhatIsFull();
  void TellDone(size_t bucket);
  void RaiseDone(size_t bucket, int stripe);
  // True if any rank may sum any share of a step's last bucket.
  bool SharesLast() const;
  // False if another rank has begun the sums of that share already.
  bool ClaimLast(int stripe);
  // The rank that sums `stripe`'s share of a step's last bucket: itself, unless another rank has
  // claimed it. `count` is the step's end.
  int SummerOf(int stripe, uint32_t count) const;
  void LeaveToPeer(size_t bucket);
  // Sums the shares of a step's last bucket that their ranks have not come to.
  void SumForOthers();
  // True if all stripes are done, but for `but`, a stripe that is left out.
  bool AreDone(uint32_t base, int but = -1) const;
  // `timeout`: limit for each bucket of a stripe; 0: none. `tells`: true if it says which rank it
  // waits for.
  absl::Status AwaitStripes(uint32_t base, std::chrono::nanoseconds timeout, bool tells);
  absl::Status EndStep();
  bool IsWired(size_t bucket) const {
    return options_.wire != DType::kF32 && plan_.buckets[bucket].dtype == DType::kF32;
  }
  // True if the share is cut by hosts as well.
  bool IsScattered(size_t bucket) const {
    return options_.shard && links_.cross != nullptr && exact_ == nullptr && !IsWired(bucket);
  }
  To last_to() const { return options_.shard ? To::kOwnCopyAtLast : To::kAllCopies; }

  // Constant after construction.
  std::vector<Range> shares_;  // this rank's share of each bucket
  std::unique_ptr<ExactExchange> exact_;

  std::vector<std::vector<uint16_t>> wired_;  // by bucket: the numbers sent for the share
  std::vector<const void*> in_;
  std::vector<void*> out_;

  // Held by the thread in Follow and by the caller in AwaitDone while they reduce. Guards
  // everything here but backward_took_, and the place and the times of the base class. Not used
  // where there is only one thread.
  Mutex turn_;
  std::vector<int64_t> backward_took_;  // by bucket: ns, as of late; used in Follow

  bool follows_ = false;  // true if the thread does all of a step, and the caller waits for it

  // The running step.
  uint32_t base_ = 0;  // buckets of all steps before
  size_t begun_ = 0;
  double all_squares_ = 0;  // the squares of this rank's shares, then of its stripe's
  std::deque<Exchange> exchanges_;
  int64_t rows_ = 0;
  SquareSums squares_ = {};
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_BUCKET_ENGINE_H_
