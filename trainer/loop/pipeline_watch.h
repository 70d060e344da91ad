#ifndef MILLRACE_TRAINER_LOOP_PIPELINE_WATCH_H_
#define MILLRACE_TRAINER_LOOP_PIPELINE_WATCH_H_

#include <cstdint>
#include <optional>

#include "base/host_use.h"
#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"
#include "trainer/loop/session.h"

namespace millrace::trainer {

// The facts for a diagnosis of this rank's training pipeline; `ranks` train together.
pipeline::DiagnosisOptions DiagnosisOptionsOf(const Session& session, int ranks);

// Measures the training pipeline of this rank while steps are done. Thread-compatible.
class PipelineWatch {
 public:
  // `session` outlives it.
  explicit PipelineWatch(const Session& session) : session_(session) {}

  // Begins to measure, unless it has begun.
  void Begin();
  // The time between these two does not count. Nothing happens before Begin.
  void Pause();
  void Resume();
  // Diagnoses the time since Begin; nullopt: it has not begun. `ranks` train together, of which
  // `replicas` in this process. `most_threads` as in pipeline::DiagnosisOptions.
  std::optional<pipeline::Diagnosis> Finish(int ranks, int replicas, int most_threads = 0) const;

 private:
  // Of this process, until now.
  int64_t FetchedBytes() const;

  const Session& session_;
  bool begun_ = false;
  pipeline::PipelineProfile profile_;  // at the beginning
  // At the beginning, moved on by the pauses.
  HostUse host_;
  int64_t fetched_bytes_ = 0;
  // At the last pause.
  HostUse paused_;
  int64_t paused_fetched_bytes_ = 0;
  double paused_seconds_ = 0;  // the sum of all pauses
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_PIPELINE_WATCH_H_
