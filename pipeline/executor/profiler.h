#ifndef MILLRACE_PIPELINE_EXECUTOR_PROFILER_H_
#define MILLRACE_PIPELINE_EXECUTOR_PROFILER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/executor/work_item.h"
#include "pipeline/plan/physical.h"
#include "pipeline/profile.h"
#include "pipeline/profile/trace_buffer.h"
#include "pipeline/run/records.h"
#include "pipeline/run/run_sample.h"
#include "readers/record_source.h"

// The executor's measurements for Pipeline::Profile. They cost a few additions at the ends of
// items, where the mutex is held and the clock was read anyway.

namespace millrace::pipeline {

// The kind of an item that is something.
ItemKind KindOf(const WorkItem& item);
// True if the item evaluates the order of samples, as one item at a time may.
bool HasOrder(const WorkItem& item);

// Threads read the clock before they have the mutex, so times may come in another order than they
// were read in: a time before the last one counts as that one.

// A number that changes now and then, added up over time.
class LevelTime {
 public:
  void Begin(int64_t now_ns, int64_t level);
  void Set(int64_t now_ns, int64_t level);
  int64_t level() const { return level_; }
  // The time of the last change.
  int64_t since_ns() const { return since_ns_; }
  // The sum of level x nanoseconds until now.
  int64_t Sum(int64_t now_ns) const;

 private:
  int64_t level_ = 0;
  int64_t since_ns_ = 0;
  int64_t sum_ = 0;
};

// The consumer's waits by cause. A wait has one cause at each moment, so the causes' times add up
// to the time of all waits.
class WaitWatch {
 public:
  explicit WaitWatch(TraceBuffer* trace = nullptr) : trace_(trace) {}

  void Begin(int64_t now_ns, WaitCause cause);
  // From now on the wait has this cause. REQUIRES: Begin was called, and End was not.
  void Note(int64_t now_ns, WaitCause cause);
  void End(int64_t now_ns);
  // Forgets all.
  void Clear() { *this = WaitWatch(trace_); }
  // The trace that shows the waits, or null.
  void SetTrace(TraceBuffer* trace) { trace_ = trace; }
  // Adds what it has counted, with the wait under way until now.
  void Fill(int64_t now_ns, PipelineProfile& profile) const;

 private:
  bool waits_ = false;
  WaitCause cause_ = WaitCause::kWork;
  int64_t begins_ns_ = 0;  // the time at which the wait began
  int64_t since_ns_ = 0;   // the time since which it has this cause
  int64_t traced_ns_ = 0;  // the time since which it has this cause without a change
  TraceBuffer* trace_ = nullptr;
  WaitTimes ns_{};
  TimeHistogram lengths_;
};

// The groups of reads that count for one file.
struct FileTimes {
  int64_t reads = 0;
  int64_t ns = 0;
  int64_t max_ns = 0;
};

// Groups of reads, in all and by file.
class ReadTimes {
 public:
  explicit ReadTimes(size_t num_files) : files_(num_files) {}

  // The trace that shows the reads, or null.
  void SetTrace(TraceBuffer* trace) { trace_ = trace; }
  // The number of groups under way.
  int64_t under_way() const { return under_way_.level(); }
  void Begin(int64_t now_ns);
  // A group that began at records.submitted_ns has ended. It counts for the file of its first read.
  void End(int64_t now_ns, const RunRecords& records);
  void Clear(int64_t now_ns);
  // Fills in all but the files.
  void Fill(int64_t now_ns, ReadProfile& profile) const;
  // The times of every file, by shard.
  const std::vector<FileTimes>& files() const { return files_; }

 private:
  void CountWindow(int64_t now_ns, int64_t bytes);

  TraceBuffer* trace_ = nullptr;
  LevelTime under_way_;
  LevelTime any_;
  int64_t window_ns_ = 0;  // the time at which the window under way began
  int64_t window_bytes_ = 0;
  ReadProfile sums_;
  std::vector<FileTimes> files_;  // by shard
};

// Fills in the files of a profile; `names` are by shard. Not under the mutex: there may be many.
void FillFiles(std::span<const FileTimes> files, std::span<const std::string> names,
               ReadProfile& profile);

// Thread-compatible; the executor's mutex guards it.
class Profiler {
 public:
  // Borrows both for its lifetime. `threads`: the workers that the pipeline uses at first.
  Profiler(const PhysicalPlan& plan, const readers::RecordSource& source, int threads);

  // The stream begins anew: all counts are 0.
  void Begin(int64_t now_ns);

  // Workers.
  void EndItem(ItemKind kind, int64_t begin_ns, int64_t now_ns) {
    if constexpr (!kProfiles) return;
    ItemTimes& times = items_[static_cast<size_t>(kind)];
    ++times.items;
    times.busy_ns += now_ns - begin_ns;
    if (trace_ != nullptr) trace_->AddItem(kind, begin_ns, now_ns);
  }
  // The end of a ProcessItem. Takes in the sample of one of its runs, if there is one, and empties
  // it.
  void EndWork(const WorkTimes& work, RunSample& sample);
  // The settler was at work.
  void AddSerial(int64_t ns) { serial_ns_ += ns; }
  // A worker begins to evaluate the order, and has done so.
  void BeginOrder(int64_t now_ns) { order_begins_ns_ = now_ns; }
  void EndOrder(int64_t now_ns) {
    if constexpr (kProfiles) serial_ns_ += now_ns - order_begins_ns_;
  }
  void SetGoal(int64_t now_ns, int threads) {
    if constexpr (kProfiles) goal_.Set(now_ns, threads);
  }

  // Batches.
  void SetReady(int64_t now_ns, int batches) {
    if constexpr (!kProfiles) return;
    ready_.Set(now_ns, batches);
    if (trace_ != nullptr) trace_->SetReady(batches, now_ns);
  }
  // The time at which the number of ready batches changed last.
  int64_t ready_since_ns() const { return ready_.since_ns(); }
  void Delivered(int64_t now_ns, int64_t rows) {
    if constexpr (!kProfiles) return;
    ++batches_;
    rows_ += rows;
    if (trace_ != nullptr) trace_->AddBatch(batches_, now_ns);
  }

  WaitWatch& waits() { return waits_; }
  ReadTimes& reads() { return reads_; }
  const ReadTimes& reads() const { return reads_; }

  // Ends the trace that is under way and begins another one. Null: there is none. Returns the trace
  // that was under way.
  std::unique_ptr<TraceBuffer> SetTrace(std::unique_ptr<TraceBuffer> trace);

  // Fills in all but the limits of workers and the ring, the memory, and the files.
  void Fill(int64_t now_ns, PipelineProfile& profile) const;

 private:
  void AddPhase(const RunSample& sample, size_t phase);
  void NameOps(std::vector<OpProfile>& ops) const;

  // Constant after construction.
  const PhysicalPlan& plan_;

  int64_t begins_ns_ = 0;
  std::array<ItemTimes, kNumItemKinds> items_{};
  WorkTimes work_;
  int64_t serial_ns_ = 0;
  int64_t order_begins_ns_ = 0;  // the time at which a worker began to evaluate the order
  int64_t batches_ = 0;
  int64_t rows_ = 0;
  LevelTime goal_;
  LevelTime ready_;
  std::vector<OpProfile> ops_;          // without names
  std::unique_ptr<TraceBuffer> trace_;  // null: nothing is traced
  WaitWatch waits_;
  ReadTimes reads_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_PROFILER_H_
