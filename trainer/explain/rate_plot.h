#ifndef MILLRACE_TRAINER_EXPLAIN_RATE_PLOT_H_
#define MILLRACE_TRAINER_EXPLAIN_RATE_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/optimizer/schedule.h"

namespace millrace::trainer {

// A drawing of the learning rate over the steps of a training, and a line with its values at the
// first step, at the end of the warm-up and at the last step. REQUIRES: total_steps > 0.
std::vector<std::string> PlotRates(const Schedule& schedule, uint64_t total_steps);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EXPLAIN_RATE_PLOT_H_
