#ifndef MILLRACE_CLI_STEP_SUMS_H_
#define MILLRACE_CLI_STEP_SUMS_H_

#include <cstdint>

namespace millrace::cli {

// One step of `millrace run`, in seconds.
struct StepTimes {
  double wait = 0;     // for the batch
  double nominal = 0;  // that the emulated accelerator takes for the batch
  double whole = 0;    // from asking for the batch to the end of the step
};

// Sums over all steps but the first, in which nothing was made ahead. Utilisation is MLPerf
// Storage's, with the nominal time in the numerator: a measured sleep, which is longer where the
// host is oversubscribed, would be rewarded for that. A value type.
class StepSums {
 public:
  void Add(const StepTimes& step);

  // Share of the time in which batches were waited for; 0 before a second step.
  double wait_fraction() const;
  // Nominal compute time / elapsed time; 0 before a second step.
  double utilisation() const;

 private:
  uint64_t num_steps_ = 0;
  StepTimes sums_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_STEP_SUMS_H_
