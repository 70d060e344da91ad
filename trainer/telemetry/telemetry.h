#ifndef MILLRACE_TRAINER_TELEMETRY_TELEMETRY_H_
#define MILLRACE_TRAINER_TELEMETRY_TELEMETRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "trainer/report.h"
#include "trainer/telemetry/event_writer.h"

namespace millrace::trainer {

struct TelemetryOptions {
  // True on the rank that prints: it shows the numbers over all ranks.
  bool is_first = true;
  std::string tensorboard_folder;  // of the first rank's event file; empty: none
  uint64_t first_step = 1;         // the first step that is done
  // Told once if events cannot be written any more. May be empty.
  std::function<void(std::string_view line)> warn;
};

// Shows a training outside of its process: in a registry, and in TensorBoard. Thread-compatible.
class Telemetry {
 public:
  // `metrics` outlives it. Errors are EventWriter's.
  static absl::StatusOr<std::unique_ptr<Telemetry>> Open(const TelemetryOptions& options,
                                                         Metrics& metrics);

  // One step of this rank.
  struct Step {
    int64_t rows = 0;  // over all ranks
    bool skipped = false;
    double seconds = 0;
    double wait_seconds = 0;  // the part of them spent waiting for batches
  };
  void AddStep(const Step& step);
  // The first rank's lines: of the steps since the last one, and of an evaluation after `step`.
  void AddLine(const StepLine& line);
  void AddEvaluation(uint64_t step, const EvaluationLine& line);
  // A rank was given up.
  void AddLoss() { ranks_lost_.Add(); }

 private:
  Telemetry(const TelemetryOptions& options, std::unique_ptr<EventWriter> events, Metrics& metrics);

  void Write(uint64_t step, std::span<const Scalar> scalars);

  const TelemetryOptions options_;
  std::unique_ptr<EventWriter> events_;  // null: none are written, or no more
  Metrics& metrics_;
  Counter& steps_;
  Counter& skipped_;
  Counter& data_wait_;
  Histogram& step_times_;
  Counter& ranks_lost_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TELEMETRY_TELEMETRY_H_
