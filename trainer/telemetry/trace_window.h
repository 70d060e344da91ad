#ifndef MILLRACE_TRAINER_TELEMETRY_TRACE_WINDOW_H_
#define MILLRACE_TRAINER_TELEMETRY_TRACE_WINDOW_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/timeline.h"
#include "pipeline/pipeline.h"

namespace millrace::trainer {

struct TraceOptions {
  std::string path;
  std::chrono::nanoseconds time{};
  bool keeps_timeline = false;                      // true if the timeline goes on behind the trace
  std::function<void(std::string_view line)> warn;  // may be empty
};

// The trace of the first seconds of a training: of each rank's pipeline, and of its steps. One file
// has those of all ranks. Thread-compatible.
class TraceWindow {
 public:
  // Its time begins. `pipeline`, which is traced already, and `timeline` outlive it.
  TraceWindow(TraceOptions options, pipeline::Pipeline& pipeline, collectives::Timeline& timeline);

  // True once its time is over and it was not written.
  bool IsDue() const { return !written_ && std::chrono::steady_clock::now() >= end_; }
  bool written() const { return written_; }
  // Ends it, and writes the file on rank 0, which warns if it cannot. Collective; errors are those
  // of the exchange.
  absl::Status Write(collectives::Communicator& communicator);

 private:
  const TraceOptions options_;
  const std::chrono::steady_clock::time_point end_;
  pipeline::Pipeline& pipeline_;
  collectives::Timeline& timeline_;
  bool written_ = false;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TELEMETRY_TRACE_WINDOW_H_
