#include "collectives/timeline_progress.h"

namespace millrace::collectives {
namespace {

Event EventOf(Phase phase) {
  switch (phase) {
    case Phase::kReading:
      return Event::kReading;
    case Phase::kWaiting:
      return Event::kWaiting;
    case Phase::kReducing:
      return Event::kReducing;
    case Phase::kExchanging:
      return Event::kExchanging;
    case Phase::kUpdating:
      return Event::kBucketUsed;
    default:
      return Event::kBackward;
  }
}

bool IsReducers(Phase phase) {
  return phase == Phase::kWaiting || phase == Phase::kReducing || phase == Phase::kExchanging;
}

}  // namespace

void TimelineProgress::Enter(int64_t step, int bucket, Phase phase) {
  const MutexLock lock(mu_);
  if (bucket < 0) step_ = step;
  if (next_ != nullptr) next_->Enter(step_, bucket, phase);
  if (timeline_ != nullptr) Draw(bucket, phase);
}

void TimelineProgress::Draw(int bucket, Phase phase) {
  const int64_t now = Timeline::Now();
  if (bucket >= 0 && IsReducers(phase)) {
    const Event event = EventOf(phase);
    if (!StandsAt(bucket, event)) Begin(reducer_, Line::kReducer, now, bucket, event);
    return;
  }
  End(reducer_, now);
  // With a bucket only the use is the loop's: the reducer says that it has nothing to do for now.
  if (bucket >= 0 && phase != Phase::kUpdating) return;
  End(compute_, now);
  if (step_ >= 0) Begin(compute_, Line::kCompute, now, bucket, EventOf(phase));
}

// Over NCCL a wait is entered anew each time that it asks.
bool TimelineProgress::StandsAt(int bucket, Event event) const {
  const Timeline::Entry& last = reducer_.entry;
  return reducer_.open && last.step == step_ && last.bucket == bucket && last.event == event &&
         last.peer < 0;
}

void TimelineProgress::BucketReady(int64_t /*step*/, int bucket) {
  const MutexLock lock(mu_);
  if (next_ != nullptr) next_->BucketReady(step_, bucket);
  if (timeline_ == nullptr) return;
  const int64_t now = Timeline::Now();
  if (compute_.open && compute_.entry.event == Event::kBackward) compute_.entry.bucket = bucket;
  Begin(compute_, Line::kCompute, now, -1, Event::kBackward);
  timeline_->Add({now, now, step_, bucket, -1, Line::kCompute, Event::kBucketReady});
}

void TimelineProgress::Awaits(int64_t /*step*/, int bucket, int rank) {
  const MutexLock lock(mu_);
  if (next_ != nullptr) next_->Awaits(step_, bucket, rank);
  if (timeline_ == nullptr) return;
  const bool exchanges = reducer_.open && reducer_.entry.event == Event::kExchanging;
  const Event event = exchanges ? Event::kExchanging : Event::kWaiting;
  const bool named = reducer_.entry.peer >= 0 || reducer_.entry.bucket != bucket;
  if (!reducer_.open || named || reducer_.entry.event != event) {
    Begin(reducer_, Line::kReducer, Timeline::Now(), bucket, event);
  }
  reducer_.entry.peer = rank;
}

void TimelineProgress::Finishing(int64_t /*step*/) {
  const MutexLock lock(mu_);
  if (next_ != nullptr) next_->Finishing(step_);
  if (timeline_ == nullptr) return;
  Begin(compute_, Line::kCompute, Timeline::Now(), -1, Event::kWaiting);
}

absl::Status TimelineProgress::Health() const {
  return next_ == nullptr ? absl::OkStatus() : next_->Health();
}

void TimelineProgress::Begin(Span& span, Line line, int64_t now, int bucket, Event event) {
  End(span, now);
  span.open = true;
  span.entry = {now, now, step_, bucket, -1, line, event};
}

void TimelineProgress::End(Span& span, int64_t now) {
  if (span.open) {
    span.entry.end_ns = now;
    timeline_->Add(span.entry);
  }
  span.open = false;
}

}  // namespace millrace::collectives
