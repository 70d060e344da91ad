#ifndef MILLRACE_TRAINER_RANK_VIEW_H_
#define MILLRACE_TRAINER_RANK_VIEW_H_

#include <cstdint>
#include <optional>

#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"
#include "pipeline/trace.h"
#include "trainer/report.h"

namespace millrace::trainer {

// The steps of a rank until now.
struct RankFigures {
  uint64_t step = 0;  // of the whole job, over all its runs
  uint64_t total_steps = 0;
  double epoch = 0;
  // The loss over all ranks, of the newest line that was printed, or with one rank of the newest
  // step; nullopt: there was none.
  std::optional<double> loss;
  StepTimes times;  // of this run, the first step among them
};

// Counts of a context's pipelines, those of the evaluation among them. Replicas share one registry,
// and so these counts.
struct PipelineCounts {
  int64_t records_bad = 0;
  int64_t fetched_bytes = 0;  // from servers
};

// One rank of a training while it runs, and after it its last state. Thread-safe.
class RankView {
 public:
  virtual ~RankView() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual RankFigures figures() const = 0;
  // The facts for a diagnosis of the training pipeline, beside its profile.
  virtual const pipeline::DiagnosisOptions& diagnosis_options() const = 0;
  // The measurements of the training pipeline.
  virtual pipeline::PipelineProfile profile() const = 0;
  virtual PipelineCounts counts() const = 0;
  // The same as those of Pipeline, of the training pipeline; nothing behind the rank's end. Not for
  // a training with a trace of its own (TrainOptions::trace_file).
  virtual void StartTrace() const = 0;
  virtual pipeline::PipelineTrace TakeTrace() const = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANK_VIEW_H_
