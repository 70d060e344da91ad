#ifndef MILLRACE_TRAINER_LOOP_RUNNING_RANK_H_
#define MILLRACE_TRAINER_LOOP_RUNNING_RANK_H_

#include <cstdint>
#include <memory>

#include "base/context.h"
#include "base/mutex.h"
#include "pipeline/diagnosis.h"
#include "pipeline/pipeline.h"
#include "trainer/loop/session.h"
#include "trainer/rank_view.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The view of this rank, for TrainOptions::observe. Thread-safe.
class RunningRank final : public RankView {
 public:
  // Borrows the session's pipeline until Close.
  RunningRank(int rank, int world, const Session& session);

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  RankFigures figures() const override;
  const pipeline::DiagnosisOptions& diagnosis_options() const override { return options_; }
  pipeline::PipelineProfile profile() const override;
  PipelineCounts counts() const override;
  void StartTrace() const override;
  pipeline::PipelineTrace TakeTrace() const override;

  void SetFigures(const RankFigures& figures);
  // Keeps the last state, and lets the pipeline and the context go.
  void Close();

 private:
  const int rank_;
  const int world_;
  const pipeline::DiagnosisOptions options_;

  mutable Mutex figures_mu_;
  RankFigures figures_ MILLRACE_GUARDED_BY(figures_mu_);

  mutable Mutex mu_;
  pipeline::Pipeline* pipeline_ MILLRACE_GUARDED_BY(mu_);  // null: closed
  std::shared_ptr<Context> context_ MILLRACE_GUARDED_BY(mu_);
  // The last state, of a closed rank.
  pipeline::PipelineProfile profile_ MILLRACE_GUARDED_BY(mu_);
  PipelineCounts counts_ MILLRACE_GUARDED_BY(mu_);
};

// Shows this rank to options.observe while it lives; its session, which is open, outlives it. Does
// nothing where nobody observes. Thread-compatible.
class Observed {
 public:
  Observed(const TrainOptions& options, int rank, int world, const Session& session);
  ~Observed();
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

  void SetFigures(const RankFigures& figures) const {
    if (view_ != nullptr) view_->SetFigures(figures);
  }

 private:
  std::shared_ptr<RunningRank> view_;  // null: nobody observes
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_RUNNING_RANK_H_
