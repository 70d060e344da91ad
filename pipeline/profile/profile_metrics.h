#ifndef MILLRACE_PIPELINE_PROFILE_PROFILE_METRICS_H_
#define MILLRACE_PIPELINE_PROFILE_PROFILE_METRICS_H_

#include "base/metrics.h"
#include "base/mutex.h"
#include "pipeline/profile.h"

namespace millrace::pipeline {

// Adds the measurements of one pipeline to the metrics of its context, as far as no counter of the
// executor does. Thread-safe.
class ProfileMetrics {
 public:
  // `metrics` outlives it.
  explicit ProfileMetrics(Metrics& metrics) : metrics_(metrics) {}

  // Adds the counts of `now` since the profile that was given last. A stream that was moved since
  // counts from 0; a profile from before it was moved, which comes late, adds nothing.
  void Update(const PipelineProfile& now) MILLRACE_EXCLUDES(mu_);

 private:
  Metrics& metrics_;
  Mutex mu_;
  PipelineProfile counted_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PROFILE_PROFILE_METRICS_H_
