#ifndef MILLRACE_CLI_EMULATE_EMULATOR_H_
#define MILLRACE_CLI_EMULATE_EMULATOR_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/emulate/step_sums.h"

// Accelerators that only take time: each takes the next batch of a stream, is busy for the batch's
// nominal time, and takes another. They are independent of each other, as MLPerf Storage's are, and
// share one stream. One thread emulates all of them: batches come in order, so while one waits for
// a batch the others cannot get one either, and the accelerator that has been free longest is next.

namespace millrace::cli {

// A clock in seconds since some moment, and a sleep until such a time; tests replace it.
struct EmulatorClock {
  std::function<double()> now;
  std::function<void(double)> sleep_until;

  // The steady clock, from now on.
  static EmulatorClock Steady();
};

// Used in a loop: SleepUntilFree, Ask, (take a batch from the stream,) Deliver. Thread-compatible.
class Emulator {
 public:
  // All accelerators are free now. `seconds_per_sample` 0: they need no time. REQUIRES: count > 0.
  Emulator(EmulatorClock clock, int count, double seconds_per_sample);

  // Sleeps until an accelerator is free, at most until `limit`.
  void SleepUntilFree(double limit);
  // That accelerator asks for a batch.
  void Ask();
  // Its batch has come. The first step of each accelerator, before which nothing was made ahead, is
  // left out of sums().
  void Deliver(int64_t rows);
  // Sleeps until all have done their work, at most until `limit`.
  void Drain(double limit) const;

  // Clears the measurements: from now on every step counts, by the part of it that is still to
  // come.
  void Measure();
  // Counts the time in which accelerators have been free until now.
  void CountIdle();

  // True if every accelerator has had a batch.
  bool all_started() const;
  double now() const { return clock_.now(); }
  const StepSums& sums() const { return sums_; }

 private:
  struct State {
    double free_at = 0;
    bool started = false;  // true if its first step has begun
  };
  State& FirstFree();

  const EmulatorClock clock_;
  const double seconds_per_sample_;
  std::vector<State> accelerators_;
  double asked_ = 0;
  double last_arrival_ = 0;
  StepSums sums_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_EMULATOR_H_
