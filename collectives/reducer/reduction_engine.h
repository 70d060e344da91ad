#ifndef MILLRACE_COLLECTIVES_REDUCER_REDUCTION_ENGINE_H_
#define MILLRACE_COLLECTIVES_REDUCER_REDUCTION_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/host/flag.h"
#include "collectives/peer_lost.h"
#include "collectives/progress.h"
#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer/gradient_accumulator.h"
#include "collectives/reducer/private_options.h"
#include "collectives/reducer/step_times.h"

namespace millrace::collectives {

// One rank's part of the reductions, step by step. There is one kind for each place of gradients:
// memory that the host's ranks share (BucketEngine), the caller's memory (SlotEngine), a device's
// (StreamEngine). Thread-compatible except where a member says otherwise.
class ReductionEngine {
 public:
  // The limits and checks of a thread that awaits peers.
  struct Waiting {
    std::chrono::nanoseconds timeout{0};    // 0: no limit
    std::function<absl::Status()> stopped;  // asked at least each 50 ms; not OK ends the wait
    std::function<bool()> has_others;       // true: also each 0.2 ms, for others have work
    ClockFunction clock = &std::chrono::steady_clock::now;  // the clock of timeouts
  };
  // A range of bytes of the buckets.
  struct Range {
    size_t offset = 0;
    size_t bytes = 0;
  };

  // The totals of a step over all ranks.
  struct Totals {
    int64_t rows = 0;    // the valid rows, with `average_by_rows`
    double squares = 0;  // the squares of all sums, with `clip_norm` or `skip_non_finite`
  };

  // `plan` outlives the engine.
  ReductionEngine(const BucketPlan& plan, const PrivateReducerOptions& options, Waiting waiting);
  virtual ~ReductionEngine() = default;
  ReductionEngine(const ReductionEngine&) = delete;
  ReductionEngine& operator=(const ReductionEngine&) = delete;

  // False if this rank sums no share.
  virtual bool has_share() const { return true; }

  // Connects the ranks as a step does. Collective; before the first one.
  virtual absl::Status Connect() { return absl::OkStatus(); }

  // Takes gradient `i` of a micro-batch, in `gradient`; that of the last one becomes the sum of
  // all. Called by the caller's thread, as is EndMicroBatch, behind which the memory of a
  // micro-batch that is not the last is backward's again.
  virtual absl::Status AddMicroBatch(size_t i, const TensorView& gradient, bool first, bool last) {
    accumulator_.Add(i, gradient, first, last);
    return absl::OkStatus();
  }
  virtual absl::Status EndMicroBatch() { return absl::OkStatus(); }
  // Takes this rank's valid rows of the step. Called by the caller's thread before the step's first
  // Publish.
  virtual void SetRows(int64_t rows) = 0;
  // Says that `count` buckets are full, of all steps so far. Not OK where peers are lost, for which
  // nothing may wait before Finish. Called by the caller's thread.
  virtual absl::Status Publish(uint32_t count) = 0;
  // Reduces the buckets that need no wait. `counts`: true if the time counts as the caller's before
  // Finish.
  virtual absl::Status Poll(bool counts) = 0;
  // Reduces all that is left of the step, waiting for peers, until all have. REQUIRES of a caller
  // without a timeout for itself: that this rank has published, or will.
  virtual absl::Status Drain() = 0;
  // Does the work that is next for a thread of the engine's own, which calls it again and again
  // while the caller publishes and awaits the end of steps.
  virtual absl::Status Follow() { return Drain(); }
  // Waits until the step that began with `base` buckets published is reduced by all ranks. Called
  // by the caller's thread, which may take part in it.
  virtual absl::Status AwaitDone(uint32_t base) = 0;
  // The totals of the step that AwaitDone or Drain has ended.
  virtual Totals totals() const = 0;
  // The bytes of `bucket` of which this rank alone has the sums, with `shard`; else the whole
  // bucket.
  virtual Range OwnPart(size_t bucket) const = 0;
  // Gives all ranks this rank's parts of all buckets, and takes theirs: the `count`th time.
  // REQUIRES: no step is under way.
  virtual absl::Status GatherParts(uint32_t count) = 0;

  // Lets a thread that sleeps in this rank's engine ask `stopped` again. Called by any thread.
  virtual void WakeAll() {}
  // Tells the others not to wait for this rank any more. `quiet`: it has ended all steps that it
  // has begun.
  virtual void Leave(const absl::Status& departure, bool quiet) = 0;
  // Called after a Leave that was not quiet: exchanges between hosts that were left on their way
  // keep their memory until the process ends where the network may still write to it.
  virtual void KeepMemory() {}
  // The times of the step that AwaitDone or Drain has ended, until the next bucket is published.
  const StepTimes& times() const { return times_; }
  // The step, bucket and phase that the engine is in; the caller fills in the rank.
  const PeerLost& place() const { return place_; }

 protected:
  // `timeout` from now on, by the clock of waits; 0: never.
  Deadline DeadlineOf(std::chrono::nanoseconds timeout) const {
    return DeadlineAfter(timeout, waiting_.clock());
  }
  // OK, or why to stop waiting for peers.
  absl::Status CheckHealth() const;
  void Enter(size_t bucket, Phase phase);
  bool wants_squares() const { return WantsSquares(options_); }

  // Constant after construction.
  const BucketPlan& plan_;
  const PrivateReducerOptions options_;
  const Waiting waiting_;

  const int64_t step_stride_;
  int64_t step_;  // the number of the step in messages
  StepTimes times_;

 private:
  GradientAccumulator accumulator_;
  PeerLost place_;
};

// `failure` with the bucket in which it happened, unless its text already names one (a peer that
// passed it on has added it).
absl::Status MetAt(size_t bucket, const absl::Status& failure);

// The divisor of a sum over `rows` rows.
float DivisorOf(int64_t rows);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_REDUCTION_ENGINE_H_
