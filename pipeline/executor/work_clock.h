#ifndef MILLRACE_PIPELINE_EXECUTOR_WORK_CLOCK_H_
#define MILLRACE_PIPELINE_EXECUTOR_WORK_CLOCK_H_

#include <cstddef>
#include <cstdint>

#include "pipeline/executor/work_item.h"
#include "pipeline/run/processor.h"

namespace millrace::pipeline {

// The clock of a ProcessItem. It says which of its runs, if any, is measured op by op, so that
// readings of the clock stay below a hundredth of the work: of items that take 200 us one run each,
// of those that take 20 us one run of four items, of others one of sixteen. Of one item in sixteen
// it measures the processor time too.
class WorkClock {
 public:
  // Begins now. `expected_ns`: the time that the item should take. Counts the item in `scratch`.
  WorkClock(RunScratch& scratch, int64_t expected_ns, int64_t now_ns);

  // True if the run of this number, of so many, is measured.
  bool Samples(size_t run, size_t runs) const { return samples_ && run == number_ / every_ % runs; }
  // True if the bytes of that run are counted too.
  bool weighs() const { return number_ / every_ % kWeighed == 0; }
  WorkTimes End(int64_t rows, int64_t now_ns) const;

 private:
  static constexpr uint64_t kWeighed = 64;

  const uint64_t number_;  // the number of the item among those of its scratch
  const uint64_t every_;   // one of so many items is sampled
  const bool samples_;
  const int64_t begin_ns_;
  const int64_t cpu_begin_ns_;  // -1: the processor time is not measured
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_WORK_CLOCK_H_
