#ifndef MILLRACE_COLLECTIVES_REDUCER_STEP_TIMES_H_
#define MILLRACE_COLLECTIVES_REDUCER_STEP_TIMES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/reducer/bucket_plan.h"
#include "collectives/reducer_counters.h"

namespace millrace::collectives {

// The times at which a rank worked on each bucket of a step. Written by the thread that reduces,
// read by the caller of Finish after the last `done` of the step: the boards' flags, or the engine,
// order the two.
class StepTimes {
 public:
  // `plan` outlives it.
  explicit StepTimes(const BucketPlan& plan) : plan_(plan), buckets_(plan.buckets.size()) {}

  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void Begin(int64_t step, size_t bucket) {
    Enter(step);
    buckets_[bucket] = {Now(), 0, 0};
  }
  void End(size_t bucket) { buckets_[bucket].end = Now(); }
  // Adds `ns` of the caller's thread that went into the bucket before Finish.
  void Polled(size_t bucket, int64_t ns) { buckets_[bucket].polled += ns; }
  // Notes a wait of `ns` for a bucket that `rank` had filled last.
  void Waited(int64_t step, int rank, int64_t ns) {
    Enter(step);
    if (ns < longest_wait_) return;
    longest_wait_ = ns;
    awaited_ = rank;
  }

  // Adds the step, whose Finish ran from `begin` to `end`, up. Each bucket has the part of Finish
  // that ends with its sums; the last one, all that is left.
  void AddTo(ReducerCounters& counters, int64_t begin, int64_t end) const;

 private:
  struct Bucket {
    int64_t begin = 0;  // a time of Now()
    int64_t end = 0;
    int64_t polled = 0;
  };

  void Enter(int64_t step) {
    if (step == step_) return;
    step_ = step;
    longest_wait_ = 0;
    awaited_ = -1;
  }

  const BucketPlan& plan_;
  std::vector<Bucket> buckets_;
  int64_t step_ = -1;
  int64_t longest_wait_ = 0;
  int awaited_ = -1;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_STEP_TIMES_H_
