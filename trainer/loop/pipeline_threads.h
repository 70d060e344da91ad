#ifndef MILLRACE_TRAINER_LOOP_PIPELINE_THREADS_H_
#define MILLRACE_TRAINER_LOOP_PIPELINE_THREADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// How many threads the pipeline of a training may use, where nobody has named a number.
//
// The pipeline itself uses no more of them than its consumer needs (pipeline/executor/adapter.h),
// but it does not see what they cost the consumer: a thread more takes time from those of compute,
// so that a pipeline that delivers faster may make a slower training. How much depends on the
// model, the data and the host, and only the steps tell. So the pipeline begins with few threads,
// and one more is tried as long as the trainer starves:
//
//   starve  The trainer waited for data in at least a twentieth of the steps' time, in two windows
//           that follow each other.
//   try     Windows of steps A B B A: the last one without the thread, two with it, one without it.
//           By this order a drift of the machine cancels out, and what is shorter shows in one of
//           the two pairs.
//   keep    The steps' rate rose by at least 3 % in both pairs: the thread stays, and the next one
//           may be tried.
//   refuse  Otherwise it goes. It is tried again after 16 windows in which nothing is tried, the
//           next time after 32, and so on: noise cannot make it come and go for ever, and a phase
//           in which it would help is found.
//
// A thread that is kept costs nothing later: a pipeline that needs it no more does not use it.
// Ranks that starve together try together, since windows count steps, which all of them make.
//
// A limit changes speed and never a bit. There is no clock here: the caller gives the times, which
// have none of evaluations and checkpoints in them.

namespace millrace::trainer {

// The times of a trial, and the smallest wait that counts.
struct ThreadTrialOptions {
  // A window is at least so long, in both. So is what is left out behind a change, whose first
  // batches were made before it.
  int window_steps = 8;
  double window_seconds = 0.5;
  int settle_steps = 4;
  double settle_seconds = 0.25;
  double starving = 0.05;    // fraction of the steps' time, as in pipeline::InputVerdict
  double worthwhile = 0.03;  // gain of the rate, as a fraction
  int first_hold = 16;       // windows
  int longest_hold = 1024;
};

// Thread-compatible.
class PipelineThreads {
 public:
  // The limit begins at `first` and goes up to `most`.
  PipelineThreads(int first, int most, const ThreadTrialOptions& options = {});

  // Takes in a step of `seconds`, in `wait_seconds` of which the trainer waited for data. Returns
  // the limit from now on.
  int AddStep(double seconds, double wait_seconds);

  // The limit now, with a thread on trial.
  int limit() const { return settled_ + (on_trial() ? 1 : 0); }
  // The same without it.
  int settled() const { return settled_; }
  // A number of threads that was tried without a gain; nullopt: there was none since the last gain.
  struct Refused {
    int threads = 0;
    double gain = 0;
  };
  const std::optional<Refused>& refused() const { return refused_; }

  // "1 to 2 of 2 cores, settled on 2 (steps/s +31 %)", or "... on 1 (2 threads: steps/s -4 %)", of
  // a rank with so many cores; empty: the limit is fixed.
  std::string Describe(int cores) const;

 private:
  struct Window {
    int steps = 0;
    double seconds = 0;
    double wait_seconds = 0;
  };

  bool is_fixed() const { return first_ >= most_; }
  bool on_trial() const { return rates_.size() == 1 || rates_.size() == 2; }
  bool IsLong(const Window& window, int steps, double seconds) const;
  void EndWindow(const Window& window);
  void Watch(const Window& window);
  void EndTrial();
  std::string Reason() const;

  // Constant after construction.
  const int first_;
  const int most_;
  const ThreadTrialOptions options_;

  int settled_;
  bool settles_ = true;  // true while steps behind a change are left out
  Window window_;        // the steps under way, of a window or left out
  // Windows without a break in which the trainer starved.
  int starving_ = 0;
  bool has_starved_ = false;  // true once a trial was due
  // Of the windows of a trial, in steps per second; empty: there is none.
  std::vector<double> rates_;
  int hold_ = 0;  // windows before the next trial
  int next_hold_;
  double gain_ = 0;  // of all threads that were kept, as a fraction
  std::optional<Refused> refused_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_PIPELINE_THREADS_H_
