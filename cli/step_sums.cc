#include "cli/step_sums.h"

namespace millrace::cli {

void StepSums::Add(const StepTimes& step) {
  if (num_steps_++ == 0) return;
  sums_.wait += step.wait;
  sums_.nominal += step.nominal;
  sums_.whole += step.whole;
}

double StepSums::wait_fraction() const { return sums_.whole > 0 ? sums_.wait / sums_.whole : 0; }

double StepSums::utilisation() const { return sums_.whole > 0 ? sums_.nominal / sums_.whole : 0; }

}  // namespace millrace::cli
