#include "cli/emulate/live_run.h"

#include <unistd.h>

#include <utility>

#include "cli/emulate/run_report.h"
#include "cli/live/serve.h"

namespace millrace::cli {

LiveRun::LiveRun(const RunFlags& flags, const RunStream& stream)
    : flags_(flags), stream_(stream), options_(DiagnosisOptionsOf(flags, stream)) {
  server_ = Serve(
      flags.file, [this] { return Look(); }, MakeTracer(), /*warns=*/flags.rank == 0);
  if (!flags.top) return;
  ClearOnSignals();
  top_.emplace([this] { return Look(); });
}

// Of a run that writes a trace itself there is none.
Tracer LiveRun::MakeTracer() const {
  if (!flags_.trace.file.empty()) return {};
  return {[this] { stream_.pipeline->StartTrace(); },
          [this] {
            ChromeEvents events;
            AddRankTrace(flags_.rank, stream_.pipeline->TakeTrace(), events);
            return TraceText(events);
          }};
}

Snapshot LiveRun::Look() const {
  Snapshot snapshot;
  snapshot.pid = getpid();
  snapshot.command = "run";
  snapshot.name = NameOfFile(flags_.file);
  snapshot.file = flags_.file;
  snapshot.world = flags_.world;
  snapshot.elapsed_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  // --find-max changes their number as it goes.
  const int accelerators = flags_.find_max ? 0 : flags_.accelerators;
  snapshot.asked_samples_per_second = SamplesPerSecondOf(flags_) * accelerators;
  RankSnapshot rank;
  rank.rank = flags_.rank;
  rank.records_bad = DamageOf(stream_.context->metrics()).records_bad;
  rank.profile = stream_.pipeline->Profile();
  rank.options = options_;
  rank.host = UseBetween(host_, ReadHostUse());
  rank.fetched_bytes = FetchOf(stream_.context->metrics()).fetched_bytes;
  snapshot.ranks.push_back(std::move(rank));
  return snapshot;
}

}  // namespace millrace::cli
