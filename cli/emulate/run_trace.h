#ifndef MILLRACE_CLI_EMULATE_RUN_TRACE_H_
#define MILLRACE_CLI_EMULATE_RUN_TRACE_H_

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/flags/trace.h"
#include "pipeline/pipeline.h"

namespace millrace::cli {

// The trace of a run's first seconds, if one is wanted. Thread-compatible.
class RunTrace {
 public:
  // Begins. `rank` is shown; `pipeline` outlives it.
  //   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be made
  static absl::StatusOr<RunTrace> Open(const TraceFlags& flags, int rank,
                                       pipeline::Pipeline& pipeline);

  // Writes the file once its time is over. Called between batches.
  //   RESOURCE_EXHAUSTED, ...  it cannot be written
  absl::Status Look();
  // Writes the file unless that was done.
  absl::Status Finish();

 private:
  using Clock = std::chrono::steady_clock;
  RunTrace(const TraceFlags& flags, int rank, pipeline::Pipeline& pipeline)
      : flags_(flags), rank_(rank), pipeline_(&pipeline), end_(Clock::now() + flags.time()) {}

  TraceFlags flags_;  // no file: there is nothing to write, or no more
  int rank_;
  pipeline::Pipeline* pipeline_;
  Clock::time_point end_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_RUN_TRACE_H_
