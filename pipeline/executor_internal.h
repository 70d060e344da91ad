#ifndef MILLRACE_PIPELINE_EXECUTOR_INTERNAL_H_
#define MILLRACE_PIPELINE_EXECUTOR_INTERNAL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "base/mutex.h"
#include "pipeline/batch.h"
#include "pipeline/batch_internal.h"
#include "pipeline/host_allocator_internal.h"
#include "pipeline/order_internal.h"
#include "pipeline/physical_plan_internal.h"
#include "pipeline/pipeline.h"
#include "pipeline/run_work_internal.h"
#include "readers/record_source.h"

// The executor: a ring of open batches, filled by the workers of a Context.
//
// There is no producer thread and no thread per stage. A worker takes the most urgent item there
// is: it opens a batch, evaluates the order of some rows and asks for their bytes, or works on the
// lowest run whose bytes have come. Each item ends without waiting for another, so an arena thread
// never blocks, and any number of pipelines share the arena. docs/executor.md has the
// tables of threads and buffers and the argument against deadlock.

namespace millrace::pipeline {

// Opens a pipeline over a source and a physical plan (Pipeline::Open without plan and files).
//   the errors of Pipeline::Open but for those of the source
absl::StatusOr<std::unique_ptr<Pipeline>> OpenPhysical(
    PhysicalPlan plan, std::unique_ptr<readers::RecordSource> source,
    std::shared_ptr<Context> context, const OpenOptions& options);

// Everything an executor is made from.
struct ExecutorParts {
  PhysicalPlan plan;
  std::unique_ptr<readers::RecordSource> source;
  BatchOrder order;
  std::shared_ptr<const BatchLayout> layout;
  RankSlice slice;
  int prefetch_batches = 1;
  uint64_t first_batch = 0;
  std::shared_ptr<HostAllocator> allocator;
  std::shared_ptr<Context> context;
};

// Next from one thread at a time; Cancel from any.
class Executor {
 public:
  explicit Executor(ExecutorParts parts);
  ~Executor();  // cancels, waits for this executor's tasks and reads

  void Start();
  // As Pipeline::Next.
  absl::StatusOr<std::optional<Batch>> Next() MILLRACE_EXCLUDES(mu_);
  // As Pipeline::TryNext.
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() MILLRACE_EXCLUDES(mu_);
  void Cancel() MILLRACE_EXCLUDES(mu_);

  const ExecutorParts& parts() const { return parts_; }

 private:
  // What a worker does next.
  struct Item {
    enum class Kind { kNone, kOpen, kPlan, kSubmit, kProcess };
    Kind kind = Kind::kNone;
    uint64_t batch_index = 0;    // kOpen
    OpenBatch* batch = nullptr;  // kPlan: rows [first_row, first_row + num_rows)
    int64_t first_row = 0;
    int64_t num_rows = 0;
    RunWork* run = nullptr;  // kSubmit, kProcess
  };
  enum class Admission { kYes, kWait, kHeldByConsumer };
  struct Later {
    bool operator()(const RunWork* a, const RunWork* b) const { return a->position > b->position; }
  };
  using RunQueue = std::priority_queue<RunWork*, std::vector<RunWork*>, Later>;
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter& records_read;
    Counter& records_bad;
    Counter& bytes_read;
    Counter& batches;
    Counter& work_nanoseconds;
    Counter& wait_nanoseconds;
    Counter& waits;
  };

  // Worker side (executor_work.cc).
  void RunTask() MILLRACE_EXCLUDES(mu_);
  void Execute(const Item& item) MILLRACE_EXCLUDES(mu_);
  void OpenNext(uint64_t index) MILLRACE_EXCLUDES(mu_);
  void PlanRuns(const Item& item) MILLRACE_EXCLUDES(mu_);
  std::vector<RunWork*> CutRuns(const Item& item) MILLRACE_EXCLUDES(mu_);
  void Submit(RunWork* run) MILLRACE_EXCLUDES(mu_);
  void OnRead(RunWork* run, std::vector<absl::Status> status) MILLRACE_EXCLUDES(mu_);
  void ProcessRun(RunWork* run) MILLRACE_EXCLUDES(mu_);
  void FinishRun(RunWork* run, RunOutcome outcome) MILLRACE_EXCLUDES(mu_);
  int64_t RowsPerRun() const;
  RunWork* TakeRun() MILLRACE_EXCLUDES(mu_);
  std::unique_ptr<RunScratch> TakeScratch() MILLRACE_EXCLUDES(mu_);

  // Choice of work (executor_choice.cc).
  Item PickLocked() MILLRACE_REQUIRES(mu_);
  Item PickPlanLocked() MILLRACE_REQUIRES(mu_);
  bool RowsUnclaimedLocked() const MILLRACE_REQUIRES(mu_);
  bool MayOpenLocked() const MILLRACE_REQUIRES(mu_);
  Admission BatchAdmissionLocked() const MILLRACE_REQUIRES(mu_);
  bool RunFitsLocked(const RunWork& run) const MILLRACE_REQUIRES(mu_);
  bool AdmitRunLocked(RunWork& run) MILLRACE_REQUIRES(mu_);
  int64_t AvailableLocked() const MILLRACE_REQUIRES(mu_);
  void WakeWorkersLocked() MILLRACE_REQUIRES(mu_);
  void NotifyIfIdleLocked() MILLRACE_REQUIRES(mu_);

  // Consumer side (executor.cc).
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNextLocked() MILLRACE_REQUIRES(mu_);
  absl::StatusOr<std::optional<Batch>> DeliverLocked() MILLRACE_REQUIRES(mu_);
  absl::Status HeldErrorLocked() const MILLRACE_REQUIRES(mu_);
  void StopLocked(absl::Status result) MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const ExecutorParts parts_;
  const RunProcessor processor_;
  const std::shared_ptr<MemoryBudget> budget_;
  const int num_threads_;
  const int64_t read_ahead_runs_;  // runs to have on their way before ready ones are worked on
  const std::shared_ptr<SlabPool> pool_;

  // Synchronise themselves.
  Counters counters_;
  std::atomic<int64_t> row_nanoseconds_{0};  // worker -> worker, relaxed: a guess for RowsPerRun

  Mutex mu_;
  CondVar batch_ready_;  // the consumer waits for the front of the ring, or for an end
  CondVar idle_;         // the destructor waits for tasks_ == 0 and reads_ == 0
  // The stream.
  std::deque<std::unique_ptr<OpenBatch>> ring_ MILLRACE_GUARDED_BY(mu_);  // not delivered, in order
  uint64_t next_batch_ MILLRACE_GUARDED_BY(mu_);                          // to open
  bool opening_ MILLRACE_GUARDED_BY(mu_) = false;     // a worker opens next_batch_ - 1
  bool error_seen_ MILLRACE_GUARDED_BY(mu_) = false;  // so no batch after it is needed
  bool stopped_ MILLRACE_GUARDED_BY(mu_) = false;     // no work is begun any more
  absl::Status result_ MILLRACE_GUARDED_BY(mu_);      // what Next says once stopped_; OK: the end
  // Runs on their way, from PlanRuns to FinishRun.
  RunQueue waiting_ MILLRACE_GUARDED_BY(mu_);             // for the budget
  std::vector<RunWork*> retry_ MILLRACE_GUARDED_BY(mu_);  // to be read record by record
  RunQueue ready_ MILLRACE_GUARDED_BY(mu_);
  int64_t unfinished_runs_ MILLRACE_GUARDED_BY(mu_) = 0;
  int64_t admitted_runs_ MILLRACE_GUARDED_BY(mu_) = 0;  // of them, those with a place in the budget
  // Threads at work for this executor.
  int tasks_ MILLRACE_GUARDED_BY(mu_) = 0;      // given to the workers and not returned
  int busy_ MILLRACE_GUARDED_BY(mu_) = 0;       // of them, those that execute an item
  int64_t reads_ MILLRACE_GUARDED_BY(mu_) = 0;  // groups of reads under way
  // Pools.
  std::vector<std::unique_ptr<RunWork>> runs_ MILLRACE_GUARDED_BY(mu_);  // all there are
  std::vector<RunWork*> idle_runs_ MILLRACE_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<RunScratch>> idle_scratch_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_INTERNAL_H_
