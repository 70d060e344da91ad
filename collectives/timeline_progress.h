#ifndef MILLRACE_COLLECTIVES_TIMELINE_PROGRESS_H_
#define MILLRACE_COLLECTIVES_TIMELINE_PROGRESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "collectives/progress.h"
#include "collectives/timeline.h"

namespace millrace::collectives {

// Records in a timeline what a rank reports, and passes it on. The number of a step is taken from
// the training loop's calls of Enter (without a bucket), since a reducer counts from its own start.
// Each bucket has these events, in this order:
//   backward      (compute) from the bucket before, or from Enter(kBackward), until it is full
//   bucket ready  (compute) an instant
//   waiting       (reducer) one for each rank of the host that was not ready; none if all were
//   reducing      (reducer)
//   exchanging    (reducer) with other hosts, one for each of their ranks that was awaited
//   bucket used   (compute) when the loop calls Enter(kUpdating) with the bucket
// Over NCCL, reducing is putting the sum on the stream; waiting follows it and names no rank. From
// Finish to the next Enter of the loop, `compute` is waiting: this time is exposed. Thread-safe.
class TimelineProgress final : public Progress {
 public:
  // Both are borrowed and may be null.
  TimelineProgress(Progress* next, Timeline* timeline) : next_(next), timeline_(timeline) {}

  void Enter(int64_t step, int bucket, Phase phase) override;
  void BucketReady(int64_t step, int bucket) override;
  void Awaits(int64_t step, int bucket, int rank) override;
  void Finishing(int64_t step) override;
  absl::Status Health() const override;

 private:
  // The event that a line is in the middle of.
  struct Span {
    bool open = false;  // true if there is one
    Timeline::Entry entry;
  };

  void Draw(int bucket, Phase phase) MILLRACE_REQUIRES(mu_);
  // True if the reducer's line shows `event` of `bucket` and names no awaited rank.
  bool StandsAt(int bucket, Event event) const MILLRACE_REQUIRES(mu_);
  void Begin(Span& span, Line line, int64_t now, int bucket, Event event) MILLRACE_REQUIRES(mu_);
  void End(Span& span, int64_t now) MILLRACE_REQUIRES(mu_);

  Progress* const next_;
  Timeline* const timeline_;
  Mutex mu_;
  int64_t step_ MILLRACE_GUARDED_BY(mu_) = -1;
  Span compute_ MILLRACE_GUARDED_BY(mu_);
  Span reducer_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_TIMELINE_PROGRESS_H_
