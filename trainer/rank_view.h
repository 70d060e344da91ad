#ifndef MILLRACE_TRAINER_RANK_VIEW_H_
#define MILLRACE_TRAINER_RANK_VIEW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"
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

// One rank of a training while it runs, and after it its last state. Thread-safe.
class RankView {
 public:
  virtual ~RankView() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual RankFigures figures() const = 0;
  // The facts for a diagnosis of the training pipeline, beside its profile.
  virtual const pipeline::DiagnosisOptions& diagnosis_options() const = 0;
  // The measurements of the training pipeline, and the metrics of its context by name (those of the
  // evaluation's pipelines are among them).
  virtual pipeline::PipelineProfile profile() const = 0;
  virtual std::map<std::string, double> metrics() const = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANK_VIEW_H_
