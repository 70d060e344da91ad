#ifndef MILLRACE_CLI_EMULATE_STEP_SUMS_H_
#define MILLRACE_CLI_EMULATE_STEP_SUMS_H_

#include <optional>

#include "cli/emulate/wait_histogram.h"

namespace millrace::cli {

// One step of an emulated accelerator, in seconds.
struct StepTimes {
  double wait = 0;     // for the batch
  double nominal = 0;  // time that the emulated accelerator takes for the batch
  double whole = 0;    // from the end of the step before it to the end of this one
};

// Sums over steps. Utilisation is MLPerf Storage's, with the nominal time in the numerator: a
// measured sleep is longer on an oversubscribed host, which would raise the utilisation. A value
// type.
class StepSums {
 public:
  void Add(const StepTimes& step);
  // Adds time spent waiting for a batch that had not come when the counting ended.
  void AddIdle(double seconds);

  // The fraction of the time spent waiting for batches; 0 without a step.
  double wait_fraction() const;
  // Nominal compute time / elapsed time; nullopt if no time was counted.
  std::optional<double> utilisation() const;
  const WaitHistogram& waits() const { return waits_; }

 private:
  StepTimes sums_;
  WaitHistogram waits_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_STEP_SUMS_H_
