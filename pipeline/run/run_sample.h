#ifndef MILLRACE_PIPELINE_RUN_RUN_SAMPLE_H_
#define MILLRACE_PIPELINE_RUN_RUN_SAMPLE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/run.h"

// The measurement of one run: the time of each op, and sometimes the bytes that it takes and makes.
// Not every run is measured, since a reading of the clock takes as long as a simple op on a few
// rows.

namespace millrace::pipeline {

// False in a build that measures nothing (MILLRACE_PROFILE=OFF), to show what measuring costs.
#ifdef MILLRACE_NO_PROFILE
inline constexpr bool kProfiles = false;
#else
inline constexpr bool kProfiles = true;
#endif

// Owned by one thread at a time, within a worker's scratch. The phases of a run are its source, its
// ops in their order, and the storing of its rows.
class RunSample {
 public:
  struct Phase {
    int64_t ns = 0;
    int64_t bytes_in = 0;   // bytes of fields that the phase took away or changed
    int64_t bytes_out = 0;  // bytes of fields that it added or changed
  };

  // True if a run was measured and Clear was not called since.
  bool full() const { return rows_ > 0 && !measures_; }
  // True if its bytes were counted too.
  bool weighed() const { return weighs_; }
  int64_t rows() const { return rows_; }
  // The first of its rows.
  const SampleId& first() const { return first_; }
  const std::vector<Phase>& phases() const { return phases_; }

  // The next run that is worked on is measured. `weighs`: true if its bytes are counted too.
  void Request(size_t num_phases, bool weighs);
  // The run begins; does nothing, as the next two do, if none was asked for.
  void Begin(const Run& run) {
    if (measures_) BeginMeasuring(run);
  }
  // A phase has ended. A phase that ends again takes the sum.
  void End(size_t phase, const Run& run) {
    if (measures_) EndPhase(phase, run);
  }
  // The run has ended.
  void Finish(int64_t stored_bytes) {
    if (measures_) FinishMeasuring(stored_bytes);
  }
  void Clear();

 private:
  // A field of a run: fields that lie elsewhere than before were changed.
  struct Weight {
    const void* data;
    int64_t bytes;
  };

  static int64_t Now() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
  void BeginMeasuring(const Run& run);
  void EndPhase(size_t phase, const Run& run);
  void FinishMeasuring(int64_t stored_bytes);
  void WeighPhase(Phase& phase, const Run& run);

  bool measures_ = false;  // true while a run is, or is to be, measured
  bool weighs_ = false;
  int64_t rows_ = 0;
  int64_t since_ns_ = 0;  // the time at which the phase under way began
  SampleId first_;
  std::vector<Phase> phases_;
  std::vector<Weight> weights_;  // the fields before the phase
  std::vector<Weight> after_;    // scratch: those behind it
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_RUN_SAMPLE_H_
