#include "cli/emulate/step_sums.h"

namespace millrace::cli {

void StepSums::Add(const StepTimes& step) {
  sums_.wait += step.wait;
  sums_.nominal += step.nominal;
  sums_.whole += step.whole;
  waits_.Add(step.wait);
}

void StepSums::AddIdle(double seconds) {
  sums_.wait += seconds;
  sums_.whole += seconds;
}

double StepSums::wait_fraction() const { return sums_.whole > 0 ? sums_.wait / sums_.whole : 0; }

std::optional<double> StepSums::utilisation() const {
  if (sums_.whole <= 0) return std::nullopt;
  return sums_.nominal / sums_.whole;
}

}  // namespace millrace::cli
