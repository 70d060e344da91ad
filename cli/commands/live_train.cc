#include "cli/commands/live_train.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

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

RankSnapshot SnapshotOf(const trainer::RankView& rank) {
  const std::map<std::string, double> metrics = rank.metrics();
  const auto metric = [&metrics](const char* name) {
    const auto found = metrics.find(name);
    return found == metrics.end() ? int64_t{0} : static_cast<int64_t>(found->second);
  };
  RankSnapshot snapshot;
  snapshot.rank = rank.rank();
  snapshot.records_bad = metric("millrace_records_bad_total");
  snapshot.fetched_bytes = metric("millrace_fetched_bytes_total");
  snapshot.steps = FiguresOf(rank);
  snapshot.profile = rank.profile();
  snapshot.options = rank.diagnosis_options();
  return snapshot;
}

// One rank's share of the process's use.
HostUse ShareOf(HostUse use, size_t ranks) {
  use.user_seconds /= static_cast<double>(ranks);
  use.system_seconds /= static_cast<double>(ranks);
  return use;
}

}  // namespace

void LiveTrain::Add(std::shared_ptr<const trainer::RankView> rank) {
  const MutexLock lock(mu_);
  ranks_.push_back(std::move(rank));
  host_ = ReadHostUse();
}

void LiveTrain::Begin(bool on_screen, bool is_first) {
  server_ = Serve(
      job_, [this] { return Look(); }, /*warns=*/is_first);
  if (!on_screen || !is_first) return;
  display_.SetTop(&top_.emplace([this] { return Look(); }));
}

void LiveTrain::End() {
  display_.SetTop(nullptr);
  top_.reset();
  server_.reset();
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
  for (const auto& rank : ranks_) {
    snapshot.world = rank->world();
    snapshot.ranks.push_back(SnapshotOf(*rank));
    snapshot.ranks.back().host = ShareOf(UseBetween(host_, ReadHostUse()), ranks_.size());
  }
  std::ranges::sort(snapshot.ranks, {}, &RankSnapshot::rank);
  return snapshot;
}

}  // namespace millrace::cli
