#include "trainer/loop/running_rank.h"

#include <utility>

namespace millrace::trainer {

RunningRank::RunningRank(int rank, int world, const pipeline::Pipeline& pipeline,
                         std::shared_ptr<Context> context)
    : rank_(rank), world_(world), pipeline_(&pipeline), context_(std::move(context)) {}

RankFigures RunningRank::figures() const {
  const MutexLock lock(figures_mu_);
  return figures_;
}

void RunningRank::SetFigures(const RankFigures& figures) {
  const MutexLock lock(figures_mu_);
  figures_ = figures;
}

pipeline::PipelineProfile RunningRank::profile() const {
  const MutexLock lock(mu_);
  return pipeline_ != nullptr ? pipeline_->Profile() : profile_;
}

std::map<std::string, int64_t> RunningRank::metrics() const {
  const MutexLock lock(mu_);
  return context_ != nullptr ? context_->metrics().Snapshot() : metrics_;
}

void RunningRank::Close() {
  const MutexLock lock(mu_);
  profile_ = pipeline_->Profile();
  metrics_ = context_->metrics().Snapshot();
  pipeline_ = nullptr;
  context_ = nullptr;
}

Observed::Observed(const TrainOptions& options, int rank, int world,
                   const pipeline::Pipeline& pipeline, const std::shared_ptr<Context>& context) {
  if (!options.observe) return;
  view_ = std::make_shared<RunningRank>(rank, world, pipeline, context);
  options.observe(view_);
}

Observed::~Observed() {
  if (view_ != nullptr) view_->Close();
}

}  // namespace millrace::trainer
