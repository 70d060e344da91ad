#include "trainer/loop/pipeline_watch.h"

#include <algorithm>

#include "base/host.h"
#include "base/metric_sum.h"
#include "base/metric_table.h"

namespace millrace::trainer {

pipeline::DiagnosisOptions DiagnosisOptionsOf(const Session& session, int ranks) {
  pipeline::DiagnosisOptions options;
  options.cores = session.cores.per_rank;
  options.processors = std::max(options.cores, static_cast<double>(ReadCores().affinity));
  options.unit = ranks > 1 ? "img/s a rank" : "img/s";
  options.settings = {"pipeline_threads: $0", "memory_budget_mib: $0", "prefetch { batches: $0 }"};
  options.uint8_saved_bytes =
      pipeline::BytesSavedByUint8(*session.train_plan, session.train_pipeline().schema());
  return options;
}

int64_t PipelineWatch::FetchedBytes() const {
  return SumOf(session_.context->metrics(), metric::kFetchedBytes);
}

void PipelineWatch::Begin() {
  if (begun_) return;
  begun_ = true;
  profile_ = session_.train_pipeline().Profile();
  fetched_bytes_ = FetchedBytes();
  host_ = ReadHostUse();
}

void PipelineWatch::Pause() {
  if (!begun_) return;
  paused_fetched_bytes_ = FetchedBytes();
  paused_ = ReadHostUse();
}

void PipelineWatch::Resume() {
  if (!begun_) return;
  const HostUse now = ReadHostUse();
  paused_seconds_ += UseBetween(paused_, now).now_seconds;
  // Now, less the use from the beginning to the pause.
  host_ = UseBetween(UseBetween(host_, paused_), now);
  fetched_bytes_ += FetchedBytes() - paused_fetched_bytes_;
}

std::optional<pipeline::Diagnosis> PipelineWatch::Finish(int ranks, int replicas,
                                                         int most_threads) const {
  if (!begun_) return std::nullopt;
  pipeline::PipelineProfile profile =
      pipeline::Between(profile_, session_.train_pipeline().Profile());
  profile.elapsed_ns -= static_cast<int64_t>(1e9 * paused_seconds_);
  pipeline::DiagnosisOptions options = DiagnosisOptionsOf(session_, ranks);
  options.most_threads = most_threads;
  // The replicas add to one registry.
  options.fetched_bytes = ShareOf(FetchedBytes() - fetched_bytes_, /*part=*/0, replicas);
  return pipeline::Diagnose(profile, ShareOf(UseBetween(host_, ReadHostUse()), replicas), options);
}

}  // namespace millrace::trainer
