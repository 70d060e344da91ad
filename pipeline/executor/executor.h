#ifndef MILLRACE_PIPELINE_EXECUTOR_EXECUTOR_H_
#define MILLRACE_PIPELINE_EXECUTOR_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "base/mutex.h"
#include "pipeline/batch.h"
#include "pipeline/batch/damage.h"
#include "pipeline/batch/data.h"
#include "pipeline/batch/host_allocator.h"
#include "pipeline/batch_op.h"
#include "pipeline/cut/barren_watch.h"
#include "pipeline/cut/examiner.h"
#include "pipeline/cut/scan_board.h"
#include "pipeline/cut/settler.h"
#include "pipeline/executor/adapter.h"
#include "pipeline/executor/work_item.h"
#include "pipeline/order/growing_order.h"
#include "pipeline/order/order.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/physical.h"
#include "pipeline/run/kept_records.h"
#include "pipeline/run/work.h"
#include "pipeline/select/selection.h"
#include "pipeline/source/growing.h"
#include "pipeline/source/open.h"
#include "readers/record_source.h"

// The executor: a ring of open batches, filled by the workers of a Context.
//
// There is no producer thread and no thread per stage. A worker takes the most urgent item there
// is: it opens a batch, evaluates the order of some rows and asks for their bytes, or works on the
// lowest run whose bytes have come. Each item ends without waiting for another, so an arena thread
// never blocks, and any number of pipelines share the arena.
//
// Without a cut, the rows of a batch are arithmetic. With one, pass 1 goes before: workers look at
// records lane by lane, whoever finds the head of a lane's reorder ring complete settles it, and
// the batches that the settler closes are opened in their order. docs/executor.md has the tables of
// threads and buffers, ARCHITECTURE.md the argument against deadlock.

namespace millrace::pipeline {

// Opens a pipeline over a source and a physical plan (Pipeline::Open without plan and files).
//   the errors of Pipeline::Open but for those of the source
absl::StatusOr<std::unique_ptr<Pipeline>> OpenPhysical(PhysicalPlan plan, OpenedSources sources,
                                                       std::shared_ptr<Context> context,
                                                       const OpenOptions& options);

// A place between two batches of the stream.
struct StreamPlace {
  uint64_t batch = 0;  // the next one
  std::string state;   // with a cut: the settler's; empty at the start
  std::string token;   // that says so
};

// Everything an executor is made from.
struct ExecutorParts {
  PhysicalPlan plan;
  std::unique_ptr<readers::RecordSource> source;
  GrowingSource* growing = nullptr;            // `source`, if it grows
  std::unique_ptr<const Zip> zip;              // over `source`, if the plan has one
  uint64_t data_fingerprint = 0;               // in tokens
  std::shared_ptr<const Selection> selection;  // of the source's records; null: all
  // Of what stands as long as the pipeline is open: the source, the bits of a selection, and slots
  // of the order's shuffles.
  int64_t standing_bytes = 0;
  BatchOrder order;  // of all records; with a cut only records() counts
  // Of every batch; where they differ, that of one without rows.
  std::shared_ptr<const BatchLayout> layout;
  RankSlice slice;                                  // without a cut
  std::vector<std::unique_ptr<BatchOp>> batch_ops;  // one per plan.batch_ops
  int rank = 0;
  int world = 1;
  int prefetch_batches = 1;
  int cpu_budget = 0;  // 0: none
  bool adapt = false;  // threads and open batches follow what is measured
  // For tests: at most so many rows in every run, whatever they cost; 0: as their cost says.
  int64_t rows_per_run = 0;
  // The clock that adapting goes by, in nanoseconds; empty: the steady clock.
  std::function<int64_t()> clock;
  std::shared_ptr<HostAllocator> allocator;
  std::shared_ptr<Context> context;

  // Of what samples are named by; kInfinite without end.
  uint64_t num_records() const { return zip != nullptr ? zip->size() : source->num_records(); }
};

//   the errors of OpenPhysical
absl::StatusOr<ExecutorParts> MakeExecutorParts(PhysicalPlan plan, OpenedSources sources,
                                                std::shared_ptr<Context> context,
                                                const OpenOptions& options);

// Opens a pipeline over its parts, at the place that the options name.
//   the errors of OpenPhysical
absl::StatusOr<std::unique_ptr<Pipeline>> OpenParts(ExecutorParts parts,
                                                    const OpenOptions& options);

// Start, Next and Save from one thread at a time; Cancel and SetTargets from any.
class Executor {
 public:
  explicit Executor(ExecutorParts parts);
  ~Executor();  // cancels, waits for this executor's tasks and reads

  // Begins at `place`; may be called again: stops, waits for its tasks and reads, begins anew.
  //   CANCELLED         Cancel was called
  //   INVALID_ARGUMENT  the place's state is not of this plan; then the stream stands still
  absl::Status Start(StreamPlace place) MILLRACE_EXCLUDES(mu_);
  // As Pipeline::Next.
  absl::StatusOr<std::optional<Batch>> Next() MILLRACE_EXCLUDES(mu_);
  // As Pipeline::TryNext.
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() MILLRACE_EXCLUDES(mu_);
  void Cancel() MILLRACE_EXCLUDES(mu_);
  // Takes back the batch that Next returned last: the stream ends with `error` in its place, behind
  // the batch of `token`.
  void Withdraw(absl::Status error, std::string token) MILLRACE_EXCLUDES(mu_);
  // The token of the batch delivered last, or of the place where the stream began.
  std::string Save() const MILLRACE_EXCLUDES(mu_);

  // From now on at most `threads` workers at once and `batches` open batches; both are clamped to
  // what the options allow. Ends adapting. Never changes a result.
  void SetTargets(int threads, int batches) MILLRACE_EXCLUDES(mu_);

  const ExecutorParts& parts() const { return parts_; }

 private:
  enum class Admission { kYes, kWait, kHeldByConsumer };
  class Locked;
  // When a task and its item began.
  struct TaskClock {
    int64_t task_ns = 0;
    int64_t item_ns = 0;
  };
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter& records_read;
    Counter& records_examined;
    Counter& records_bad;
    Counter& bytes_read;
    Counter& batches;
    Counter& work_nanoseconds;
    Counter& wait_nanoseconds;
    Counter& waits;
    Gauge& threads;
    Gauge& ring;
  };

  // Worker side (executor_work.cc).
  void RunTask() MILLRACE_EXCLUDES(mu_);
  bool NextItem(TaskClock& clock, std::optional<WorkItem>& item) MILLRACE_EXCLUDES(mu_);
  void EndItemLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  void EndTaskLocked() MILLRACE_REQUIRES(mu_);
  void CallWorkers(int tasks) MILLRACE_EXCLUDES(mu_);
  void Execute(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  OrderMemo* MemoOf(const BatchOrder& order);
  void FillIds(const WorkItem& item) MILLRACE_EXCLUDES(mu_);
  void PlanRuns(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  std::vector<RunWork*> CutRuns(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  std::vector<RunWork*> CutClosedRuns(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  int64_t FindRows(const OpenBatch& batch, int64_t begin, int64_t end, RunWork& run);
  std::vector<RunWork*> AdmitLocked(RunPass& pass, const std::vector<RunWork*>& runs)
      MILLRACE_REQUIRES(mu_);
  void Submit(RunWork* run) MILLRACE_EXCLUDES(mu_);
  void OnRead(RunWork* run, std::vector<absl::Status> status) MILLRACE_EXCLUDES(mu_);
  void ProcessRuns(WorkItem& item);
  void FinishRunLocked(RunWork& run) MILLRACE_REQUIRES(mu_);
  int64_t RowsAtCost(int64_t cost) const;
  int64_t RowsPerRun() const;
  int64_t RowsPerPlan() const;
  void TakeIdleRunsLocked(int64_t count, WorkItem& item) MILLRACE_REQUIRES(mu_);
  RunWork* TakeRun(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  std::unique_ptr<RunScratch> MakeScratch() const;
  void LearnCost(std::atomic<int64_t>& mean_nanoseconds, int64_t nanoseconds, int64_t rows);
  std::unique_ptr<RunScratch> CountScratch(std::unique_ptr<RunScratch> scratch);
  void KeepScratchLocked(std::unique_ptr<RunScratch> scratch) MILLRACE_REQUIRES(mu_);

  // Batches (executor_batch.cc).
  void Open(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  void OpenNext(const BatchOrder& order, uint64_t index, OpenBatch& batch);
  void OpenClosed(ClosedWork& work, OpenBatch& batch);
  void PutIntoRing(std::unique_ptr<OpenBatch> batch) MILLRACE_EXCLUDES(mu_);
  void FinishBatch(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  static void NoteDamage(OpenBatch& batch);
  static absl::Status OriginalError(const OpenBatch& batch);
  void TryCandidates(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  absl::Status ApplyBatchOps(const BatchData& data) const;
  void FilledLocked(OpenBatch* batch) MILLRACE_REQUIRES(mu_);
  void ReadyLocked(OpenBatch* batch) MILLRACE_REQUIRES(mu_);
  bool ItemsAreShort(size_t next_slab_bytes) const;
  void PlaceClosedRows(ClosedBatch& closed, OpenBatch& batch) const;
  bool TakeSlab(OpenBatch& batch);
  std::string TokenBehind(uint64_t batch, std::string state) const;

  // Pass 1 (executor_scan.cc).
  void ScanRuns(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  std::vector<SampleId> IdsOf(const BatchOrder& order, const ScanClaim& claim);
  std::vector<RunWork*> CutScanRuns(WorkItem& item, std::span<const SampleId> ids)
      MILLRACE_EXCLUDES(mu_);
  void Examine(const RunWork& work, RunScratch& scratch, Examined& found,
               std::vector<std::string_view>* payloads) const;
  Examined ExamineCaught(const RunWork& work, RunScratch& scratch,
                         std::vector<std::string_view>* payloads) const;
  bool MayKeep(const RunWork& run) const;
  void Keep(RunWork& run, std::vector<std::string_view> payloads);
  void ExamineRun(WorkItem& item) MILLRACE_EXCLUDES(mu_);
  void Settle() MILLRACE_EXCLUDES(mu_);
  std::vector<std::unique_ptr<ClosedWork>> TakeClosed(size_t room, bool* more);
  void StopSettling(const absl::Status& status) MILLRACE_EXCLUDES(mu_);
  void CheckProgressLocked() MILLRACE_REQUIRES(mu_);
  int64_t RowsPerScan() const;

  // Choice of work (executor_choice.cc).
  bool PickLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  bool PickPlanLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  bool PickOpenLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  bool PickScanLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  bool PickProcessLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  bool MayJoinLocked(const WorkItem& item) const MILLRACE_REQUIRES(mu_);
  bool PickExamineLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  void TakeIdleScratchLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  bool PickUrgentLocked(WorkItem& item) MILLRACE_REQUIRES(mu_);
  RunWork* PickSubmitLocked() MILLRACE_REQUIRES(mu_);
  RunWork* PickWaitingLocked(RunPass& pass) MILLRACE_REQUIRES(mu_);
  bool RowsUnclaimedLocked() const MILLRACE_REQUIRES(mu_);
  bool MayClaimRowsLocked() const MILLRACE_REQUIRES(mu_);
  bool MayOpenLocked() const MILLRACE_REQUIRES(mu_);
  bool MaySettleLocked() const MILLRACE_REQUIRES(mu_);
  bool MayScanLocked(uint64_t ahead) const MILLRACE_REQUIRES(mu_);
  size_t ClosedRoomLocked() const MILLRACE_REQUIRES(mu_);
  uint64_t ScanAheadLocked() const MILLRACE_REQUIRES(mu_);
  bool AtEndLocked() const MILLRACE_REQUIRES(mu_);
  bool HasNextLocked() const MILLRACE_REQUIRES(mu_);
  int64_t ReadAheadLocked() const MILLRACE_REQUIRES(mu_);
  int64_t NextBatchBytesLocked() const MILLRACE_REQUIRES(mu_);
  Admission BatchAdmissionLocked() const MILLRACE_REQUIRES(mu_);
  bool RunFitsLocked(const RunPass& pass) const MILLRACE_REQUIRES(mu_);
  bool NoRunAdmittedLocked() const MILLRACE_REQUIRES(mu_);
  bool AdmitRunLocked(RunPass& pass, RunWork& run) MILLRACE_REQUIRES(mu_);
  int64_t AvailableLocked() const MILLRACE_REQUIRES(mu_);
  void WakeWorkersLocked() MILLRACE_REQUIRES(mu_);
  void NotifyIfIdleLocked() MILLRACE_REQUIRES(mu_);

  // A source that grows (executor_growing.cc).
  bool MayGrowLocked() const MILLRACE_REQUIRES(mu_);
  const BatchOrder& OrderLocked() const MILLRACE_REQUIRES(mu_);
  void NoticeGrowthLocked() MILLRACE_REQUIRES(mu_);
  void NoticeEndLocked(uint64_t records) MILLRACE_REQUIRES(mu_);
  bool RecordsAreHereLocked() const MILLRACE_REQUIRES(mu_);
  void WantForPass1Locked() MILLRACE_REQUIRES(mu_);
  void Discard(std::span<const SampleId> ids) MILLRACE_EXCLUDES(mu_);
  void TellUses(const RunWork& run, const Examined& found) const;
  void ReleaseRows(const BatchData& batch) const;
  absl::Status EndStatusLocked() const MILLRACE_REQUIRES(mu_);

  // Adapting (executor_adapt.cc).
  int64_t Now() const;
  void AdaptLocked() MILLRACE_REQUIRES(mu_);
  void ObeyLocked(const Targets& targets) MILLRACE_REQUIRES(mu_);
  void BeginWorkLocked(int64_t now_ns) MILLRACE_REQUIRES(mu_);
  void EndWorkLocked(int64_t begin_ns, int64_t now_ns) MILLRACE_REQUIRES(mu_);

  // Consumer side (executor.cc).
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNextLocked() MILLRACE_REQUIRES(mu_);
  void EndWaitLocked() MILLRACE_REQUIRES(mu_);
  absl::StatusOr<std::optional<Batch>> DeliverLocked() MILLRACE_REQUIRES(mu_);
  void CountDamage(const BatchData& data);
  absl::Status HeldErrorLocked() const MILLRACE_REQUIRES(mu_);
  void StopLocked(absl::Status result) MILLRACE_REQUIRES(mu_);
  absl::StatusOr<std::unique_ptr<Settler>> MakeSettler(const std::string& state) const;
  void WaitIdleAndClearLocked() MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const ExecutorParts parts_;
  const RunProcessor processor_;
  const std::unique_ptr<const Examiner> examiner_;  // with a cut
  const std::shared_ptr<MemoryBudget> budget_;
  const StandingMemory standing_;
  const int max_threads_;
  const RankSlice own_lanes_;                                      // with a cut
  const std::shared_ptr<TaskGroup> group_ = Workers::MakeGroup();  // of its tasks
  const std::shared_ptr<SlabPool> pool_;

  // Synchronise themselves.
  Counters counters_;
  RecordKeeper keeper_;
  // Worker -> worker, relaxed: guesses for RowsPerRun and RowsPerScan.
  std::atomic<int64_t> row_nanoseconds_{0};
  std::atomic<int64_t> scan_nanoseconds_{0};

  // Owned by the worker that set settling_, or planning_; by Start while nothing is under way.
  std::unique_ptr<Settler> settler_;
  OrderMemo memo_;
  const BatchOrder* memo_order_ = nullptr;  // whose memo it is

  // What Next needs when a batch is ready lies side by side: after a pause none of it is in a
  // cache.
  alignas(64) mutable Mutex mu_;
  bool stopped_ MILLRACE_GUARDED_BY(mu_) = true;    // no work is begun
  bool wake_due_ MILLRACE_GUARDED_BY(mu_) = false;  // the consumer is to hear of the front soon
  // Whatever a worker does next ends soon, by the batch that was ready last.
  bool items_are_short_ MILLRACE_GUARDED_BY(mu_) = false;
  // For Locked: who is to be called without the mutex.
  bool consumer_to_call_ MILLRACE_GUARDED_BY(mu_) = false;
  int tasks_to_call_ MILLRACE_GUARDED_BY(mu_) = 0;
  int ready_batches_ MILLRACE_GUARDED_BY(mu_) = 0;     // in the ring
  int ring_target_ MILLRACE_GUARDED_BY(mu_);           // at most parts_.prefetch_batches
  int64_t wait_begins_ MILLRACE_GUARDED_BY(mu_) = -1;  // of the consumer's wait under way; -1: none
  std::deque<std::unique_ptr<OpenBatch>> ring_ MILLRACE_GUARDED_BY(mu_);  // not delivered, in order
  std::vector<std::unique_ptr<OpenBatch>> idle_batches_ MILLRACE_GUARDED_BY(mu_);
  std::string last_token_ MILLRACE_GUARDED_BY(mu_);  // what Save says
  CondVar batch_ready_;  // the consumer waits for the front of the ring, or for an end
  CondVar idle_;         // who waits for tasks_ == 0 and reads_ == 0
  // The stream.
  uint64_t next_batch_ MILLRACE_GUARDED_BY(mu_) = 0;  // to open
  bool opening_ MILLRACE_GUARDED_BY(mu_) = false;     // a worker opens next_batch_ - 1
  bool planning_ MILLRACE_GUARDED_BY(mu_) = false;    // a worker evaluates the order
  bool error_seen_ MILLRACE_GUARDED_BY(mu_) = false;  // so no batch after it is needed
  bool cancelled_ MILLRACE_GUARDED_BY(mu_) = false;
  DamageBudget damage_ MILLRACE_GUARDED_BY(mu_);  // since Start
  absl::Status result_ MILLRACE_GUARDED_BY(mu_);  // what Next says once stopped_; OK: the end
  // Runs on their way.
  RunPass rows_ MILLRACE_GUARDED_BY(mu_);                    // into slabs
  RunPass scan_ MILLRACE_GUARDED_BY(mu_);                    // pass 1
  std::vector<RunWork*> retry_ MILLRACE_GUARDED_BY(mu_);     // to be read record by record
  std::vector<OpenBatch*> filled_ MILLRACE_GUARDED_BY(mu_);  // the ops over the whole are to come
  // Plans with a cut.
  ScanBoard board_ MILLRACE_GUARDED_BY(mu_);
  BarrenWatch barren_ MILLRACE_GUARDED_BY(mu_);
  std::deque<std::unique_ptr<ClosedWork>> closed_ MILLRACE_GUARDED_BY(mu_);  // to open, in order
  bool settling_ MILLRACE_GUARDED_BY(mu_) = false;       // a worker has the settler
  bool more_closed_ MILLRACE_GUARDED_BY(mu_) = false;    // the settler may have more closed batches
  bool settled_ MILLRACE_GUARDED_BY(mu_) = false;        // it has none any more
  uint64_t examined_rows_ MILLRACE_GUARDED_BY(mu_) = 0;  // lately, and how many of them were kept
  uint64_t kept_rows_ MILLRACE_GUARDED_BY(mu_) = 0;
  // A source that grows.
  std::optional<BatchOrder> final_order_ MILLRACE_GUARDED_BY(mu_);  // once it has ended
  std::optional<LeftOut> left_out_ MILLRACE_GUARDED_BY(mu_);        // until then
  uint64_t known_records_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t known_elements_ MILLRACE_GUARDED_BY(mu_) = 0;  // of the order
  bool end_is_due_ MILLRACE_GUARDED_BY(mu_) = false;      // the settler is to be told of the end
  bool reached_end_ MILLRACE_GUARDED_BY(mu_) = false;     // as Settler::reached_end, once settled_
  // Threads at work for this executor.
  int thread_target_ MILLRACE_GUARDED_BY(mu_);  // at most max_threads_
  int tasks_ MILLRACE_GUARDED_BY(mu_) = 0;      // for the workers, and not returned
  int busy_ MILLRACE_GUARDED_BY(mu_) = 0;       // of them, those that execute an item
  int64_t reads_ MILLRACE_GUARDED_BY(mu_) = 0;  // groups of reads under way
  // What the adapter goes by.
  Adapter adapter_ MILLRACE_GUARDED_BY(mu_);
  bool adapting_ MILLRACE_GUARDED_BY(mu_);
  int64_t adapted_ns_ MILLRACE_GUARDED_BY(mu_) = 0;   // when the adapter was last asked
  int64_t worked_ns_ MILLRACE_GUARDED_BY(mu_) = 0;    // in items that have ended
  int64_t work_begins_ MILLRACE_GUARDED_BY(mu_) = 0;  // of the items under way, added up
  int64_t waited_ns_ MILLRACE_GUARDED_BY(mu_) = 0;    // of the consumer, in waits that have ended
  // Pools.
  std::vector<std::unique_ptr<RunWork>> runs_ MILLRACE_GUARDED_BY(mu_);  // all there are
  std::vector<RunWork*> idle_runs_ MILLRACE_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<RunScratch>> idle_scratch_ MILLRACE_GUARDED_BY(mu_);
};

// Holds the executor's mutex, and calls the workers and the consumer who are wanted when it has let
// go. Called earlier they would wait for the mutex at once, and cost two more calls to the system.
// What keeps the executor until then: the tasks that are about to be called are counted, and the
// consumer is called by a task under way, or by itself.
class MILLRACE_SCOPED_CAPABILITY Executor::Locked {
 public:
  explicit Locked(Executor& executor) MILLRACE_ACQUIRE(executor.mu_) : executor_(executor) {
    executor_.mu_.Lock();
  }
  ~Locked() MILLRACE_RELEASE() { LetGo(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  // Lets go, calls, and holds the mutex again; false when nobody was to be called.
  bool Call() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
    if (!executor_.consumer_to_call_ && executor_.tasks_to_call_ == 0) return false;
    LetGo();
    executor_.mu_.Lock();
    return true;
  }

 private:
  void LetGo() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
    const bool consumer = std::exchange(executor_.consumer_to_call_, false);
    const int tasks = std::exchange(executor_.tasks_to_call_, 0);
    executor_.mu_.Unlock();
    if (consumer) executor_.batch_ready_.NotifyAll();
    if (tasks > 0) executor_.CallWorkers(tasks);
  }

  Executor& executor_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_EXECUTOR_H_
