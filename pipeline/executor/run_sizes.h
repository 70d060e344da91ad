#ifndef MILLRACE_PIPELINE_EXECUTOR_RUN_SIZES_H_
#define MILLRACE_PIPELINE_EXECUTOR_RUN_SIZES_H_

#include <atomic>
#include <cstdint>

namespace millrace::pipeline {

// The work that a run should have, by measured cost, if nothing else is said.
inline constexpr int64_t kRunNanoseconds = 50'000;
// The time after which a task queues up again, so that a pipeline which has used less may be next.
inline constexpr int64_t kTaskNanoseconds = 8 * kRunNanoseconds;

// Decides how many rows a run should have: `run_ns` of work, by a running mean of a row's cost.
// Size decides speed and never a result. Thread-safe.
class RunSizes {
 public:
  struct Options {
    int64_t fixed_rows = 0;      // the most rows of a run, at any cost of a row; 0: as it says
    int64_t preferred_rows = 1;  // the number of rows that an op wants at least
    int64_t run_ns = 0;          // 0: kRunNanoseconds
  };
  explicit RunSizes(const Options& options);

  // Rows of a run of pass 2, and of pass 1.
  int64_t RowsPerRun() const { return RowsAtCost(rows_.mean_ns()); }
  int64_t RowsPerScan() const { return RowsAtCost(scan_.mean_ns()); }
  // Rows to plan at once: several runs, but long ones one by one, since each takes the read buffer
  // that the one before it has given back.
  int64_t RowsPerPlan() const;
  // The cost of a row of pass 2 in nanoseconds; 0 before the first run.
  int64_t row_ns() const { return rows_.mean_ns(); }
  // True once a run of the smallest size is known to end within the time of a run.
  bool RowsAreShort() const { return IsShort(rows_.mean_ns()); }
  bool ScansAreShort() const { return IsShort(scan_.mean_ns()); }

  // Takes in the time that `rows` rows of pass 2, or of pass 1, took. REQUIRES: rows > 0.
  void LearnRows(int64_t nanoseconds, int64_t rows) { rows_.Learn(nanoseconds, rows); }
  void LearnScan(int64_t nanoseconds, int64_t rows) { scan_.Learn(nanoseconds, rows); }

 private:
  // A running mean over about eight runs. Racing updates lose one sample, which does no harm.
  class Cost {
   public:
    int64_t mean_ns() const { return mean_ns_.load(std::memory_order_relaxed); }
    void Learn(int64_t nanoseconds, int64_t rows);

   private:
    std::atomic<int64_t> mean_ns_{0};  // worker -> worker, relaxed: a guess
  };
  int64_t RowsAtCost(int64_t cost_ns) const;
  bool IsShort(int64_t cost_ns) const {
    return cost_ns > 0 && cost_ns * preferred_rows_ <= kRunNanoseconds;
  }

  // Constant after construction.
  const int64_t fixed_rows_;
  const int64_t preferred_rows_;
  const int64_t run_ns_;

  // These synchronise themselves.
  Cost rows_;
  Cost scan_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_RUN_SIZES_H_
