#include "cli/commands/live_train.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/metric_sum.h"
#include "cli/live/serve.h"

namespace millrace::cli {
namespace {

StepFigures FiguresOf(const trainer::RankView& rank) {
  const trainer::RankFigures figures = rank.figures();
  return {figures.step,
          figures.total_steps,
          figures.epoch,
          figures.loss,
          figures.times.steps,
          figures.times.samples,
          figures.times.step_seconds,
          figures.times.wait_seconds};
}

// `rank` is one of `replicas` in this process.
RankSnapshot SnapshotOf(const trainer::RankView& rank, int replica, int replicas) {
  const trainer::PipelineCounts counts = rank.counts();
  RankSnapshot snapshot;
  snapshot.rank = rank.rank();
  snapshot.records_bad = ShareOf(counts.records_bad, replica, replicas);
  snapshot.fetched_bytes = ShareOf(counts.fetched_bytes, replica, replicas);
  snapshot.steps = FiguresOf(rank);
  snapshot.profile = rank.profile();
  snapshot.options = rank.diagnosis_options();
  return snapshot;
}

}  // namespace

void LiveTrain::Add(std::shared_ptr<const trainer::RankView> rank) {
  const MutexLock lock(mu_);
  ranks_.push_back(std::move(rank));
  host_ = ReadHostUse();
}

void LiveTrain::Begin(bool on_screen, bool is_first) {
  server_ = Serve(
      job_, [this] { return Look(); }, MakeTracer(), /*warns=*/is_first);
  if (!on_screen || !is_first) return;
  display_.SetTop(&top_.emplace([this] { return Look(); }));
}

void LiveTrain::End() {
  display_.SetTop(nullptr);
  top_.reset();
  server_.reset();
}

Tracer LiveTrain::MakeTracer() const {
  if (writes_trace_) return {};
  return {[this] { StartTraces(); }, [this] { return TakeTraces(); }};
}

void LiveTrain::StartTraces() const {
  const MutexLock lock(mu_);
  for (const auto& rank : ranks_) rank->StartTrace();
}

std::string LiveTrain::TakeTraces() const {
  ChromeEvents events;
  const MutexLock lock(mu_);
  for (const auto& rank : ranks_) AddRankTrace(rank->rank(), rank->TakeTrace(), events);
  return TraceText(events);
}

Snapshot LiveTrain::Look() const {
  Snapshot snapshot;
  snapshot.pid = getpid();
  snapshot.command = "train";
  snapshot.name = NameOfFile(job_);
  snapshot.file = job_;
  snapshot.elapsed_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const MutexLock lock(mu_);
  const HostUse use = UseBetween(host_, ReadHostUse());
  const auto replicas = static_cast<int>(ranks_.size());
  for (int replica = 0; replica < replicas; ++replica) {
    snapshot.world = ranks_[replica]->world();
    snapshot.ranks.push_back(SnapshotOf(*ranks_[replica], replica, replicas));
    snapshot.ranks.back().host = ShareOf(use, replicas);
  }
  std::ranges::sort(snapshot.ranks, {}, &RankSnapshot::rank);
  return snapshot;
}

}  // namespace millrace::cli
