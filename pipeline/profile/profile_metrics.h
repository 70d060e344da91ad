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

  // Adds what `now` has counted since the profile that was given last.
  void Update(const PipelineProfile& now) MILLRACE_EXCLUDES(mu_);
  // The stream begins anew: the next profile counts from 0. `last`: the profile before.
  void Restart(const PipelineProfile& last) MILLRACE_EXCLUDES(mu_);

 private:
  void UpdateLocked(const PipelineProfile& now) MILLRACE_REQUIRES(mu_);

  Metrics& metrics_;
  Mutex mu_;
  PipelineProfile counted_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PROFILE_PROFILE_METRICS_H_
