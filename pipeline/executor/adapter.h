#ifndef MILLRACE_PIPELINE_EXECUTOR_ADAPTER_H_
#define MILLRACE_PIPELINE_EXECUTOR_ADAPTER_H_

#include <cstdint>
#include <deque>
#include <limits>

// How many threads and how deep a ring a pipeline uses, while it runs.
//
// Too few threads starve the consumer. Too many take cores from its compute threads and memory for
// batches that are not taken. Neither number can be known before, and both change: an evaluation
// begins, images get larger, another job takes a core.
//
// Two things are measured. *Starvation* is the fraction of time that the consumer waits. *Demand*
// is the work done per time, in threads: workers' busy time over elapsed time. While the consumer
// does not starve, demand is its own pace times the cost of a batch, with any number of threads; so
// the number that is needed can be computed and no trial is made that could go wrong.
//
//   grow    The consumer waited for more than a tenth of the last 20 ms, or a fiftieth of the last
//           100 ms, and the threads were busy (reads that are slow call for no threads): twice the
//           threads. If the ring was full lately it is bursts that empty it: twice the ring, unless
//           nine tenths of the budget are taken. From 1 to 64 threads takes 6 looks, 120 ms.
//   shrink  For 700 ms the consumer did not starve and the ring was full again and again: threads
//           to one and a half times the highest demand of any 100 ms in that time; and, where the
//           threads have such head-room, the ring by what was ready and not used in all that time,
//           but for one batch.
//
// Why it does not oscillate: the highest demand of 700 ms is that of the bursts, so a pause between
// bursts takes nothing away; pauses that are longer are phases, and each is followed. Growth is
// fast, so a step up costs some tens of milliseconds. Where a shrink was followed by starvation
// within 2 s it is not made again at that demand: the goal stays one above.
//
// The limit of the threads may move: its owner may know what more of them cost the consumer
// (trainer/loop/pipeline_threads.h), which is seen nowhere in here.
//
// Its decisions change speed and never a bit. It has no clock and no thread: the caller gives the
// time.

namespace millrace::pipeline {

// The executor's numbers at a moment. Sums count from its start.
struct Observation {
  int64_t now_ns = 0;            // the time of a clock that never goes back
  int64_t consumer_wait_ns = 0;  // sum, with the part of a wait that is under way
  int64_t busy_ns = 0;           // sum, of all workers, at work for this pipeline
  int ready_batches = 0;         // the ready batches in the ring
  int64_t reserved_bytes = 0;    // the reserved bytes of the memory budget
  int64_t budget_bytes = std::numeric_limits<int64_t>::max();
};

// The numbers that the adapter chooses, both at least 1.
struct Goals {
  int threads = 1;
  int ring = 1;
  friend bool operator==(const Goals&, const Goals&) = default;
};

// Thread-compatible.
class Adapter {
 public:
  // `limits`: the most that the CPU budget, the context's threads and the prefetch limit allow.
  // Begins there, so that the first batch is as fast as can be.
  explicit Adapter(const Goals& limits);

  // Takes in the numbers of now and returns the goals, each in [1, limit]. Costs some
  // nanoseconds. Call it each time a worker finds nothing to do or a batch becomes ready, and at
  // least every few milliseconds while the consumer waits.
  Goals Update(const Observation& now);

  // From now on at most so many threads, which are used at once if they are more than before.
  void SetThreadLimit(int threads);

  const Goals& goals() const { return goals_; }

 private:
  // A stretch of at least 100 ms.
  struct Window {
    int64_t begin_ns = 0;
    double demand = 0;  // threads
    int least_ready = 0;
    bool full = false;     // true if the ring was full
    bool starved = false;  // true if the consumer starved
  };

  void Look(const Observation& now);
  void CloseWindow(const Observation& now);
  void Grow(const Observation& now);
  void Shrink(int64_t now_ns);
  Goals Wish(double demand, int least_ready) const;
  int UnusedBatches(const Observation& now) const;
  void BeginWindow(const Observation& now);

  Goals limits_;
  Goals goals_;
  bool begun_ = false;  // true once Update was called
  Observation look_;    // the numbers at the last look for starvation
  Observation window_;  // the numbers at the beginning of the window
  int least_ready_ = 0;
  bool full_ = false;           // true if the ring was full in this window
  bool starved_ = false;        // true if the consumer starved in this window
  std::deque<Window> history_;  // the last 700 ms, closed windows
  int64_t full_ns_;             // the last time that the ring was full
  // The last shrink: its time and its demand.
  int64_t shrunk_ns_;
  double shrunk_demand_ = 0;
  // Goals of a shrink that starvation followed, and its demand.
  Goals regretted_;
  double regretted_demand_ = std::numeric_limits<double>::infinity();
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_ADAPTER_H_
