#include "collectives/reducer/step_times.h"

#include <algorithm>

namespace millrace::collectives {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

void StepTimes::AddTo(ReducerCounters& counters, int64_t begin, int64_t end) const {
  ++counters.steps;
  counters.last_finish_seconds = Seconds(end - begin);
  counters.last_awaited = awaited_;
  counters.buckets.resize(buckets_.size());
  int64_t reached = begin;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& times = buckets_[i];
    const bool last = i + 1 == buckets_.size();
    const int64_t until = last ? end : std::clamp(times.end, reached, end);
    ReducerCounters::Bucket& sum = counters.buckets[i];
    sum.bytes += static_cast<int64_t>(plan_.buckets[i].bytes);
    sum.seconds += Seconds(std::max<int64_t>(0, times.end - times.begin));
    sum.exposed_seconds += Seconds(until - reached + times.polled);
    reached = until;
  }
}

}  // namespace millrace::collectives
