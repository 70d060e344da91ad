#ifndef MILLRACE_PIPELINE_EXECUTOR_EXECUTOR_H_
#define MILLRACE_PIPELINE_EXECUTOR_EXECUTOR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "base/mutex.h"
#include "pipeline/batch.h"
#include "pipeline/batch/damage.h"
#include "pipeline/batch/data.h"
#include "pipeline/executor/batch_maker.h"
#include "pipeline/executor/choice.h"
#include "pipeline/executor/counters.h"
#include "pipeline/executor/fetch_watch.h"
#include "pipeline/executor/hand_over_clock.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/planner.h"
#include "pipeline/executor/run_sizes.h"
#include "pipeline/executor/scanner.h"
#include "pipeline/executor/work_item.h"
#include "pipeline/pipeline.h"
#include "pipeline/profile.h"
#include "pipeline/run/kept_records.h"
#include "pipeline/run/processor.h"

// The executor: a ring of open batches, filled by the workers of a Context.
//
// There is no producer thread and no thread per stage. A worker takes the most urgent item there
// is: it opens a batch, evaluates the order of some rows and asks for their bytes, or works on the
// lowest run whose bytes have come. Each item ends without waiting for another, so an arena thread
// never blocks, and any number of pipelines share the arena.
//
// Without a cut, the rows of a batch are arithmetic. With one, pass 1 goes before: workers look at
// records lane by lane, one worker at a time settles the complete heads of the lanes' reorder
// queues, and the batches that the settler closes are opened in their order.
//
// The state has six parts, each with a header of its own, and one mutex guards them all:
//
//   Ring       the open batches, and the wake-ups of the consumer      executor/ring.h
//   RunQueues  the runs of both passes on their way, and idle ones     executor/run_queues.h
//   PassOne    positions looked at, findings, closed batches           executor/pass_one.h
//   Growth     how far a source that grows has come                    executor/growth.h
//   Demand     threads at work, and what the adapter makes of it       executor/demand.h
//   Profiler   the times for Pipeline::Profile                          executor/profiler.h
//
// Choice (executor/choice.h) looks at all of them and says what to do next. An item's work is done
// without the mutex, by Planner, Scanner, RunProcessor, the settler and BatchMaker, which know
// nothing of it. docs/executor.md has the tables of threads and buffers, and the argument against
// deadlock.

namespace millrace::pipeline {

// A place between two batches of the stream.
struct StreamPlace {
  uint64_t batch = 0;  // the number of the next batch
  std::string state;   // the state of the settler, with a cut; empty at the start
  std::string token;   // the token of this place
};

// Start, Next and Save from one thread at a time; Cancel, SetGoals, SetThreadLimit and Profile from
// any.
class Executor {
 public:
  explicit Executor(ExecutorParts parts);
  ~Executor();  // cancels, waits for this executor's tasks and reads

  // Begins at `place`. May be called again: stops, waits for its tasks and reads, begins anew.
  //   CANCELLED         Cancel was called
  //   INVALID_ARGUMENT  the place's state is not of this plan; then the stream stands still
  absl::Status Start(StreamPlace place) MILLRACE_EXCLUDES(mu_);
  // The same as Pipeline::Next.
  absl::StatusOr<std::optional<Batch>> Next() MILLRACE_EXCLUDES(mu_);
  // The same as Pipeline::NextFor.
  std::optional<absl::StatusOr<std::optional<Batch>>> NextFor(std::chrono::nanoseconds limit)
      MILLRACE_EXCLUDES(mu_);
  // The same as Pipeline::TryNext.
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() MILLRACE_EXCLUDES(mu_);
  void Cancel() MILLRACE_EXCLUDES(mu_);
  // Takes back the batch that Next returned last: the stream ends with `error` in its place, behind
  // the batch of `token`.
  void Withdraw(absl::Status error, std::string token) MILLRACE_EXCLUDES(mu_);
  // The token of the batch delivered last, or of the place where the stream began.
  std::string Save() const MILLRACE_EXCLUDES(mu_);
  // The same as Pipeline::Profile.
  PipelineProfile Profile() const MILLRACE_EXCLUDES(mu_);
  // The same as those of Pipeline.
  void StartTrace(size_t max_events) MILLRACE_EXCLUDES(mu_);
  PipelineTrace TakeTrace() MILLRACE_EXCLUDES(mu_);

  // From now on at most `threads` workers at once and `batches` open batches; both are clamped to
  // the range that the options allow. Ends adapting. Never changes a result.
  void SetGoals(int threads, int batches) MILLRACE_EXCLUDES(mu_);
  // The same as Pipeline::SetThreadLimit.
  void SetThreadLimit(int threads) MILLRACE_EXCLUDES(mu_);

  const ExecutorParts& parts() const { return parts_; }

 private:
  class Locked;
  // The times at which a task and its item began.
  struct TaskClock {
    int64_t task_ns = 0;
    int64_t item_ns = 0;
  };

  // The consumer.
  std::optional<absl::StatusOr<std::optional<Batch>>> Await(std::chrono::nanoseconds limit)
      MILLRACE_EXCLUDES(mu_);
  int64_t BeginCall();
  void EndCall(int64_t call_ns, const std::optional<absl::StatusOr<std::optional<Batch>>>& outcome);
  std::optional<absl::StatusOr<std::optional<Batch>>> AwaitNext(std::chrono::nanoseconds limit,
                                                                int64_t& call_ns)
      MILLRACE_EXCLUDES(mu_);
  bool WaitLocked(std::chrono::nanoseconds limit) MILLRACE_REQUIRES(mu_);
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNextLocked() MILLRACE_REQUIRES(mu_);
  std::optional<absl::StatusOr<std::optional<Batch>>> StopIfStuckLocked() MILLRACE_REQUIRES(mu_);
  absl::StatusOr<std::optional<Batch>> DeliverLocked() MILLRACE_REQUIRES(mu_);
  void EndWaitLocked() MILLRACE_REQUIRES(mu_);
  void NoteWaitLocked(int64_t now_ns) MILLRACE_REQUIRES(mu_);
  void NameRecord(SlowRows& slow) const;
  void CountDamage(const BatchData& data);
  absl::Status HeldErrorLocked() const MILLRACE_REQUIRES(mu_);
  absl::Status EndStatusLocked() const MILLRACE_REQUIRES(mu_);
  void StopLocked(absl::Status result) MILLRACE_REQUIRES(mu_);
  void BeginPassOneLocked(std::unique_ptr<Settler> settler) MILLRACE_REQUIRES(mu_);
  void WaitIdleAndClearLocked() MILLRACE_REQUIRES(mu_);

  // Tasks of the workers.
  void RunTask() MILLRACE_EXCLUDES(mu_);
  void GiveUp(const absl::Status& error, WorkItem& item) MILLRACE_EXCLUDES(mu_);
  bool NextItem(TaskClock& clock, WorkItem& item) MILLRACE_EXCLUDES(mu_);
  void EndItemLocked(WorkItem& item, int64_t now_ns) MILLRACE_REQUIRES(mu_);
  void EndTaskLocked() MILLRACE_REQUIRES(mu_);
  void CallWorkers(int tasks) MILLRACE_EXCLUDES(mu_);
  void NotCalled(int tasks, const absl::Status& error) MILLRACE_EXCLUDES(mu_);
  void WakeWorkersLocked() MILLRACE_REQUIRES(mu_);
  bool NothingUnderWayLocked() const MILLRACE_REQUIRES(mu_) { return tasks_ == 0 && reads_ == 0; }
  void NotifyIfIdleLocked() MILLRACE_REQUIRES(mu_);

  // Items.
  void Execute(std::monostate& item);
  void Execute(OpenItem& item) MILLRACE_EXCLUDES(mu_);
  void Execute(PlanItem& item) MILLRACE_EXCLUDES(mu_);
  void Execute(SubmitItem<RowsRun>& item) MILLRACE_EXCLUDES(mu_);
  void Execute(SubmitItem<ScanRun>& item) MILLRACE_EXCLUDES(mu_);
  void Execute(ProcessItem& item);
  void Execute(FinishItem& item) MILLRACE_EXCLUDES(mu_);
  void Execute(ScanItem& item) MILLRACE_EXCLUDES(mu_);
  void Execute(ExamineItem& item) MILLRACE_EXCLUDES(mu_);
  void Execute(SettleItem& item) MILLRACE_EXCLUDES(mu_);

  // Runs.
  template <typename Run>
  Run* TakeRun(RunList<Run>& idle) MILLRACE_EXCLUDES(mu_);
  template <typename Run>
  void Submit(const std::vector<Run*>& runs) MILLRACE_EXCLUDES(mu_);
  template <typename Run>
  void Submit(Run* run) MILLRACE_EXCLUDES(mu_);
  template <typename Run>
  void OnRead(Run* run, std::vector<absl::Status> status) MILLRACE_EXCLUDES(mu_);
  void FinishRunLocked(RowsRun& run) MILLRACE_REQUIRES(mu_);
  std::unique_ptr<RunScratch> CountScratch(std::unique_ptr<RunScratch> scratch);

  // Batches whose rows have all landed, or that are ready.
  void FilledLocked(OpenBatch* batch, int64_t now_ns) MILLRACE_REQUIRES(mu_);
  void ReadyLocked(OpenBatch* batch, int64_t now_ns) MILLRACE_REQUIRES(mu_);
  bool ItemsAreShort(size_t next_slab_bytes) const;
  void TryCandidates(OpenBatch& batch) MILLRACE_EXCLUDES(mu_);

  // Pass 1, and a source that grows.
  void StopSettling(const absl::Status& status) MILLRACE_EXCLUDES(mu_);
  void CheckProgressLocked() MILLRACE_REQUIRES(mu_);
  void NoticeGrowthLocked() MILLRACE_REQUIRES(mu_);
  void WantForPassOneLocked() MILLRACE_REQUIRES(mu_);

  // Adapting.
  int64_t Now() const;
  // The time for the profile alone.
  int64_t ProfileNow() const { return kProfiles ? Now() : 0; }
  void AdaptLocked() MILLRACE_REQUIRES(mu_);
  void ObeyLocked(const Goals& goals) MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const ExecutorParts parts_;
  const RunProcessor processor_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<TaskGroup> group_ = Workers::MakeGroup();  // the group of its tasks
  const std::shared_ptr<SlabPool> pool_;

  // These synchronise themselves.
  ExecutorCounters counters_;
  FetchWatch fetch_watch_;  // but for Look, which the consumer's thread calls
  RecordKeeper keeper_;
  RunSizes sizes_;

  // Constant after construction, made of those above.
  const BatchMaker batch_maker_;
  const std::unique_ptr<const Scanner> scanner_;  // null without a cut
  const StandingMemory standing_;
  const Choice choice_;

  // The planner is thread-safe as far as planner.h says; the worker that set RunQueues::planning
  // evaluates the order.
  Planner planner_;

  // The data that Next needs when a batch is ready lies side by side: after a pause none of it is
  // in a cache.
  alignas(64) mutable Mutex mu_;
  int tasks_to_call_ MILLRACE_GUARDED_BY(mu_) = 0;  // tasks, of tasks_, that Locked calls
  HandOverClock hand_over_;                         // of the consumer's thread, but for Fill
  ExecutorState state_ MILLRACE_GUARDED_BY(mu_);
  DamageBudget damage_ MILLRACE_GUARDED_BY(mu_);  // the damage since Start
  CondVar batch_ready_;  // the consumer waits for the front of the ring, or for an end
  CondVar idle_;         // notified when nothing is under way
  bool cancelled_ MILLRACE_GUARDED_BY(mu_) = false;  // true once Cancel was called
  absl::Status result_ MILLRACE_GUARDED_BY(mu_);     // the result of Next at the end; OK: the end
  int tasks_ MILLRACE_GUARDED_BY(mu_) = 0;      // tasks called, or to be called, and not returned
  int64_t reads_ MILLRACE_GUARDED_BY(mu_) = 0;  // groups of reads under way
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_EXECUTOR_H_
