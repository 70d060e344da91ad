#include "trainer/loop/running_rank.h"

#include "base/metric_sum.h"
#include "base/metric_table.h"
#include "trainer/loop/pipeline_watch.h"

namespace millrace::trainer {
namespace {

PipelineCounts CountsOf(const Metrics& metrics) {
  return {.records_bad = SumOf(metrics, metric::kRecordsBad),
          .fetched_bytes = SumOf(metrics, metric::kFetchedBytes)};
}

}  // namespace

RunningRank::RunningRank(int rank, int world, const Session& session)
    : rank_(rank),
      world_(world),
      options_(DiagnosisOptionsOf(session, world)),
      pipeline_(&session.train_pipeline()),
      context_(session.context) {}

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

PipelineCounts RunningRank::counts() const {
  const MutexLock lock(mu_);
  return context_ != nullptr ? CountsOf(context_->metrics()) : counts_;
}

void RunningRank::StartTrace() const {
  const MutexLock lock(mu_);
  if (pipeline_ != nullptr) pipeline_->StartTrace();
}

pipeline::PipelineTrace RunningRank::TakeTrace() const {
  const MutexLock lock(mu_);
  return pipeline_ != nullptr ? pipeline_->TakeTrace() : pipeline::PipelineTrace();
}

void RunningRank::Close() {
  const MutexLock lock(mu_);
  profile_ = pipeline_->Profile();
  counts_ = CountsOf(context_->metrics());
  pipeline_ = nullptr;
  context_ = nullptr;
}

Observed::Observed(const TrainOptions& options, int rank, int world, const Session& session) {
  if (!options.observe) return;
  view_ = std::make_shared<RunningRank>(rank, world, session);
  options.observe(view_);
}

Observed::~Observed() {
  if (view_ != nullptr) view_->Close();
}

}  // namespace millrace::trainer
