#ifndef MILLRACE_CLI_EMULATE_WAIT_HISTOGRAM_H_
#define MILLRACE_CLI_EMULATE_WAIT_HISTOGRAM_H_

#include <cstdint>

#include "base/log_histogram.h"

namespace millrace::cli {

// The waits of steps. A quantile is at most 1/32 too large. A value type.
class WaitHistogram {
 public:
  // Seconds; a step notices a longer wait.
  static constexpr double kNoticed = 50e-6;

  void Add(double seconds);

  uint64_t count() const { return nanoseconds_.count(); }
  // The number of waits longer than kNoticed.
  uint64_t num_noticed() const { return num_noticed_; }
  double max() const { return max_; }
  // The smallest bin's upper end below which at least `fraction` of the waits lie, at most max(); 0
  // before the first. REQUIRES: fraction in [0, 1].
  double Quantile(double fraction) const;

 private:
  LogHistogram<32> nanoseconds_;
  uint64_t num_noticed_ = 0;
  double max_ = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_WAIT_HISTOGRAM_H_
