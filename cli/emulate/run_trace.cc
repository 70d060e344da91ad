#include "cli/emulate/run_trace.h"

#include <span>
#include <string>

#include "base/chrome_trace.h"
#include "base/status.h"
#include "cli/live/tracer.h"

namespace millrace::cli {

absl::StatusOr<RunTrace> RunTrace::Open(const TraceFlags& flags, int rank,
                                        pipeline::Pipeline& pipeline) {
  if (!flags.file.empty()) {
    // A folder that is not there is an error now, not when the time is over.
    MILLRACE_RETURN_IF_ERROR(Annotate(WriteChromeTrace(flags.file, {}), "--trace"));
    pipeline.StartTrace();
  }
  return RunTrace(flags, rank, pipeline);
}

absl::Status RunTrace::Look() {
  if (flags_.file.empty() || Clock::now() < end_) return absl::OkStatus();
  return Finish();
}

absl::Status RunTrace::Finish() {
  if (flags_.file.empty()) return absl::OkStatus();
  ChromeEvents events;
  AddRankTrace(rank_, pipeline_->TakeTrace(), events);
  const absl::Status written = WriteChromeTrace(flags_.file, {&events.text(), 1});
  flags_.file.clear();
  return Annotate(written, "--trace");
}

}  // namespace millrace::cli
