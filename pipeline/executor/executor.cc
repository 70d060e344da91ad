#include "pipeline/executor/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/caught.h"
#include "base/status.h"
#include "pipeline/executor/locked.h"
#include "pipeline/executor/settling.h"
#include "pipeline/executor/work_clock.h"

namespace millrace::pipeline {
namespace {

// The part of the memory budget, one in so many, for records between the two passes.
constexpr int64_t kKeptPart = 8;
constexpr size_t kSmallSlabBytes = 1 << 20;     // opened in no time
constexpr int64_t kKeptArenaBytes = 512 << 10;  // kept by a worker even over the budget's limit

int MaxThreads(const ExecutorParts& parts) {
  const int threads = parts.context->workers().num_threads();
  return parts.cpu_budget == 0 ? threads : std::min(threads, parts.cpu_budget);
}

int64_t StandingBytes(const ExecutorParts& parts, const Scanner* scanner) {
  if (scanner == nullptr) return parts.standing_bytes;
  const size_t extents = scanner->examiner().extents_per_row();
  return parts.standing_bytes + static_cast<int64_t>(SettlingBytes(parts, extents));
}

// Gives bytes back to the budget at once when it ends, also where an exception passes by.
class ReturnedBytes {
 public:
  explicit ReturnedBytes(MemoryBudget& budget) : budget_(budget) {}
  ~ReturnedBytes() {
    if (bytes_ != 0) budget_.Release(bytes_);
  }
  ReturnedBytes(const ReturnedBytes&) = delete;
  ReturnedBytes& operator=(const ReturnedBytes&) = delete;
  void Add(int64_t bytes) { bytes_ += bytes; }

 private:
  MemoryBudget& budget_;
  int64_t bytes_ = 0;
};

ExecutorState MakeState(const ExecutorParts& parts) {
  const Goals limits{.threads = MaxThreads(parts), .ring = parts.prefetch_batches};
  MemoryBudget& budget = *parts.context->memory_budget();
  return {.stopped = true,
          .ring = Ring(limits.ring),
          .demand = Demand(limits, parts.adapt),
          .queues = RunQueues(budget, limits.threads),
          .pass_one = PassOne(budget),
          .growth = Growth(parts),
          .profiler = Profiler(parts.plan, *parts.source, limits.threads)};
}

}  // namespace

Executor::Executor(ExecutorParts parts)
    : parts_(std::move(parts)),
      processor_(parts_.plan, *parts_.source),
      budget_(parts_.context->memory_budget()),
      pool_(std::make_shared<SlabPool>(parts_.allocator, budget_,
                                       static_cast<size_t>(parts_.prefetch_batches) + 1)),
      counters_(parts_.context->metrics()),
      fetch_watch_(*parts_.source, *parts_.context),
      keeper_(budget_->limit_bytes() / kKeptPart),
      sizes_({.fixed_rows = parts_.rows_per_run,
              .preferred_rows = processor_.preferred_rows(),
              .run_ns = int64_t{parts_.run_us} * 1000}),
      batch_maker_(parts_, processor_, pool_, budget_),
      scanner_(parts_.has_cut() ? std::make_unique<Scanner>(parts_, processor_, keeper_, budget_)
                                : nullptr),
      standing_(budget_, StandingBytes(parts_, scanner_.get())),
      choice_(parts_, sizes_),
      planner_(parts_, keeper_, processor_.preferred_rows()),
      state_(MakeState(parts_)),
      damage_(&parts_.plan.damage) {
  counters_.threads.Add(state_.demand.threads());
  counters_.ring.Add(state_.ring.length());
  if (parts_.growing == nullptr) return;
  parts_.growing->SetOnGrow([this] {
    Locked lock(*this);
    WakeWorkersLocked();
    if (state_.ring.empty()) state_.ring.CallConsumer();
  });
}

Executor::~Executor() {
  Cancel();
  if (parts_.growing != nullptr) parts_.growing->SetOnGrow({});
  {
    MutexLock lock(mu_);
    WaitIdleAndClearLocked();
    state_.queues.ReleaseScratch();
    counters_.threads.Add(-state_.demand.threads());
    counters_.ring.Add(-state_.ring.length());
  }
  pool_->Close();
}

// The consumer.

absl::Status Executor::Start(StreamPlace place) {
  std::unique_ptr<Settler> settler;
  if (scanner_ != nullptr) {
    const size_t extents = scanner_->examiner().extents_per_row();
    MILLRACE_ASSIGN_OR_RETURN(settler, MakeSettler(parts_, extents, place.state));
  }
  std::optional<LeftOut> left_out;
  if (parts_.growing != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(left_out, LeftOut::Make(parts_.plan, parts_.slice));
  }
  Locked lock(*this);
  state_.stopped = true;
  WaitIdleAndClearLocked();
  if (cancelled_) return result_;
  state_.stopped = false;
  result_ = absl::OkStatus();
  state_.ring.Begin(place.batch, std::move(place.token));
  state_.profiler.Begin(Now());
  hand_over_.Begin();
  damage_ = DamageBudget(&parts_.plan.damage);
  if (left_out.has_value()) state_.growth.Begin(*std::move(left_out));
  if (settler != nullptr) BeginPassOneLocked(std::move(settler));
  WakeWorkersLocked();
  return absl::OkStatus();
}

void Executor::BeginPassOneLocked(std::unique_ptr<Settler> settler) {
  const Order& records = parts_.order.records();
  const bool endless = records.size() == kInfinite && parts_.growing == nullptr;
  EmptyStreamWatch empty_stream(parts_.plan, endless, records.EpochSize(), parts_.num_records());
  state_.pass_one.Begin(std::move(settler), LaneEnds(parts_), std::move(empty_stream));
}

PipelineProfile Executor::Profile() const {
  PipelineProfile profile;
  profile.ring = parts_.prefetch_batches;
  profile.memory = {.limit_bytes = budget_->limit_bytes(),
                    .reserved_bytes = budget_->reserved_bytes(),
                    .highest_bytes = budget_->highest_bytes(),
                    .standing_bytes = budget_->standing_bytes(),
                    .held_bytes = budget_->held_bytes(),
                    .batch_bytes = static_cast<int64_t>(parts_.layout->slab_bytes)};
  std::vector<FileTimes> files;
  {
    MutexLock lock(mu_);
    profile.workers = state_.demand.thread_limit();
    profile.ring_goal = state_.ring.length();
    state_.profiler.Fill(Now(), profile);
    files = state_.profiler.reads().files();
  }
  hand_over_.Fill(profile);
  FillFiles(files, parts_.source->files(), profile.reads);
  for (OpProfile& op : profile.ops) NameRecord(op.slowest);
  return profile;
}

void Executor::StartTrace(size_t max_events) {
  auto trace = std::make_unique<TraceBuffer>(max_events);
  MutexLock lock(mu_);
  trace = state_.profiler.SetTrace(std::move(trace));
}

PipelineTrace Executor::TakeTrace() {
  std::unique_ptr<TraceBuffer> buffer;
  {
    MutexLock lock(mu_);
    buffer = state_.profiler.SetTrace(nullptr);
  }
  if (buffer == nullptr) return {};
  PipelineTrace trace = buffer->Take();
  trace.files = parts_.source->files();
  return trace;
}

// Fills in where the first of the rows lies, if its source has files.
void Executor::NameRecord(SlowRows& slow) const {
  if (slow.row_ns == 0 || parts_.source->files().empty()) return;
  const readers::RecordRef ref = LocateSample(*parts_.source, parts_.sample_parts(), slow.first);
  slow.file = parts_.source->files()[ref.shard];
  slow.record = static_cast<int64_t>(ref.ordinal);
}

// Waits for tasks and reads under way, and forgets what they were for. REQUIRES: stopped.
void Executor::WaitIdleAndClearLocked() {
  while (!NothingUnderWayLocked()) idle_.Wait(mu_);
  planner_.Clear();
  state_.ring.Clear();
  state_.pass_one.Clear();
  keeper_.Clear();
  state_.queues.Clear();
}

void Executor::Cancel() {
  if (parts_.growing != nullptr) parts_.growing->Close();
  MutexLock lock(mu_);
  if (cancelled_) return;
  cancelled_ = true;
  StopLocked(absl::CancelledError("the pipeline was cancelled"));
  batch_ready_.NotifyAll();
}

void Executor::Withdraw(absl::Status error, std::string token) {
  MutexLock lock(mu_);
  if (!cancelled_) StopLocked(std::move(error));
  state_.ring.SetToken(std::move(token));
}

std::string Executor::Save() const {
  MutexLock lock(mu_);
  return state_.ring.token();
}

void Executor::SetGoals(int threads, int batches) {
  Locked lock(*this);
  state_.demand.StopAdapting();
  ObeyLocked({.threads = threads, .ring = batches});
}

void Executor::SetThreadLimit(int threads) {
  Locked lock(*this);
  const int goal = state_.demand.SetThreadLimit(threads);
  ObeyLocked({.threads = goal, .ring = state_.ring.length()});
}

void Executor::StopLocked(absl::Status result) {
  state_.stopped = true;
  result_ = std::move(result);
}

// Tasks of the workers.

void Executor::CallWorkers(int tasks) {
  Workers& workers = parts_.context->workers();
  for (int i = 0; i < tasks; ++i) {
    const absl::Status thrown = Caught([&] { workers.Enqueue(group_, [this] { RunTask(); }); });
    if (!thrown.ok()) return NotCalled(tasks - i, thrown);
  }
}

// Ends the stream: so many tasks will not come, since there is no memory to call them.
void Executor::NotCalled(int tasks, const absl::Status& error) {
  MutexLock lock(mu_);
  if (!state_.stopped) StopLocked(error);
  batch_ready_.NotifyAll();
  tasks_ -= tasks;  // until here they keep the executor
  NotifyIfIdleLocked();
}

void Executor::WakeWorkersLocked() {
  if (parts_.growing != nullptr) NoticeGrowthLocked();
  const int threads = state_.demand.threads();
  if (tasks_ < threads) {
    const int64_t available = choice_.NumAvailable(state_);
    while (tasks_ < threads && tasks_ - state_.demand.busy() < available) {
      ++tasks_;
      ++tasks_to_call_;
    }
  }
  if (parts_.growing != nullptr) WantForPassOneLocked();
}

void Executor::NotifyIfIdleLocked() {
  if (NothingUnderWayLocked()) idle_.NotifyAll();
}

void Executor::RunTask() {
  TaskClock clock;
  WorkItem item;
  while (NextItem(clock, item)) {
    const absl::Status thrown =
        Caught([&] { std::visit([this](auto& work) { Execute(work); }, item); });
    if (!thrown.ok()) GiveUp(thrown, item);
  }
}

// Ends the stream since `item` threw, and its work is half done. The runs of a ProcessItem are idle
// next and may be admitted anew, so their places in the budget go back here; those of all other
// runs when the stream is cleared.
void Executor::GiveUp(const absl::Status& error, WorkItem& item) {
  if (auto* const open = std::get_if<OpenItem>(&item)) {
    budget_->Release(std::exchange(open->reserved_bytes, 0));  // 0 once a batch has them
  } else if (auto* const process = std::get_if<ProcessItem>(&item)) {
    for (RowsRun* const run : process->runs) {
      budget_->Release(std::exchange(run->records.reserved_bytes, 0));
    }
  }
  Locked lock(*this);
  if (!state_.stopped) StopLocked(error);
  state_.ring.CallConsumer();
}

// Ends `item`, unless it is nothing, and makes it the next thing that the task does. False: the
// task has ended, and the executor may be gone.
bool Executor::NextItem(TaskClock& clock, WorkItem& item) {
  Locked lock(*this);
  const int64_t now_ns = Now();
  if (std::holds_alternative<std::monostate>(item)) {
    clock.task_ns = now_ns;
  } else {
    state_.demand.EndWork(clock.item_ns, now_ns);
    state_.profiler.EndItem(KindOf(item), clock.item_ns, now_ns);
    EndItemLocked(item, now_ns);  // nothing is left in it that the executor owns
  }
  if (state_.ring.consumer_waits() && state_.demand.LookIsDue(now_ns)) AdaptLocked();
  const bool may_go_on = now_ns - clock.task_ns < kTaskNanoseconds;
  bool goes_on = may_go_on && choice_.Pick(state_, item);
  state_.ring.WakeBetweenItems(now_ns, goes_on);
  // While this task keeps the executor.
  if (!goes_on && lock.Call()) goes_on = may_go_on && choice_.Pick(state_, item);
  if (goes_on) {
    clock.item_ns = now_ns;
    state_.demand.BeginWork(now_ns);
    if (HasOrder(item)) state_.profiler.BeginOrder(now_ns);
    WakeWorkersLocked();
  }
  NoteWaitLocked(now_ns);
  if (!goes_on) EndTaskLocked();
  return goes_on;
}

// The reason for a wait of the consumer may have changed.
void Executor::NoteWaitLocked(int64_t now_ns) {
  if constexpr (!kProfiles) return;
  if (!state_.ring.consumer_waits()) return;
  state_.profiler.waits().Note(now_ns, choice_.CauseOfWait(state_));
}

// Does the part of an item that needs the mutex, which is held between two items anyway. Runs that
// are done, or that a plan did not need, are idle again.
void Executor::EndItemLocked(WorkItem& item, int64_t now_ns) {
  RunQueues& queues = state_.queues;
  if (auto* const process = std::get_if<ProcessItem>(&item)) {
    for (RowsRun* const run : process->runs) FinishRunLocked(*run);
    if (process->scratch != nullptr) {
      state_.profiler.EndWork(process->times, process->scratch->sample);
    }
    queues.GiveBack(std::move(process->scratch));
    process->batch->remaining_rows -= process->num_rows;
    if (process->batch->remaining_rows == 0) FilledLocked(process->batch, now_ns);
    queues.rows().GiveBack(process->runs);
  } else if (const auto* const plan = std::get_if<PlanItem>(&item)) {
    queues.rows().GiveBack(plan->idle);
  } else if (const auto* const scan = std::get_if<ScanItem>(&item)) {
    queues.scan().GiveBack(scan->idle);
  } else if (auto* const examine = std::get_if<ExamineItem>(&item)) {
    queues.GiveBack(std::move(examine->scratch));  // of one that threw
  }
}

void Executor::EndTaskLocked() {
  --tasks_;
  AdaptLocked();
  WakeWorkersLocked();
  // An opening that was put off may have been what the consumer waits for. Called under the mutex:
  // nothing may keep the executor afterwards.
  const Ring& ring = state_.ring;
  if (ring.wake_is_due() || (ring.empty() && !ring.opening())) batch_ready_.NotifyAll();
  NotifyIfIdleLocked();
}

// Items.

void Executor::Execute(std::monostate&) {}

void Executor::Execute(OpenItem& item) {
  std::unique_ptr<OpenBatch> batch = batch_maker_.Open(item);
  OpenBatch* const opened = batch.get();
  Locked lock(*this);
  state_.ring.EndOpening(std::move(batch));
  if (opened->remaining_rows == 0) FilledLocked(opened, ProfileNow());
}

void Executor::Execute(PlanItem& item) {
  if (!item.batch->closed) {
    planner_.FillIds(item);
    const int64_t now_ns = ProfileNow();
    Locked lock(*this);
    state_.profiler.EndOrder(now_ns);
    state_.queues.SetPlanning(false);
    WakeWorkersLocked();
  }
  std::vector<RowsRun*> runs;
  runs.reserve(kMostRuns);
  for (int64_t row = 0; row < item.num_rows;) {
    RowsRun* const run = runs.emplace_back(TakeRun(item.idle));
    row += planner_.FillRun(item, row, *run);
  }
  std::vector<RowsRun*> admitted;
  {
    Locked lock(*this);
    admitted = state_.queues.AdmitPlanned(runs);
  }
  Submit(admitted);
}

void Executor::Execute(SubmitItem<RowsRun>& item) { Submit(item.run); }

void Executor::Execute(SubmitItem<ScanRun>& item) { Submit(item.run); }

void Executor::Execute(ProcessItem& item) {
  if (item.scratch == nullptr) {
    item.scratch = std::make_unique<RunScratch>(processor_.MakeScratch());
  }
  WorkClock clock(*item.scratch, sizes_.row_ns() * item.num_rows, Now());
  {
    ReturnedBytes returned(*budget_);
    for (size_t i = 0; i < item.runs.size(); ++i) {
      RowsRun* const run = item.runs[i];
      if (clock.Samples(i, item.runs.size())) {
        item.scratch->sample.Request(processor_.num_phases(), clock.weighs());
      }
      run->bad_rows = processor_.Process(*run, *item.scratch);
      returned.Add(std::exchange(run->records.reserved_bytes, 0));
      run->DropRecords();
    }
  }
  item.times = clock.End(item.num_rows, Now());
  counters_.work_nanoseconds.Add(item.times.ns);
  sizes_.LearnRows(item.times.ns, item.num_rows);
  counters_.records_read.Add(item.num_rows);
  item.scratch = CountScratch(std::move(item.scratch));
}

void Executor::Execute(FinishItem& item) {
  std::optional<absl::Status> status = batch_maker_.Finish(*item.batch);
  if (!status.has_value()) return TryCandidates(*item.batch);
  Locked lock(*this);
  if (!status->ok()) state_.ring.NoteError();
  item.batch->error = *std::move(status);
  ReadyLocked(item.batch, ProfileNow());
}

void Executor::Execute(ScanItem& item) {
  const ScanClaim& claim = item.claim;
  const std::vector<SampleId> ids = planner_.IdsOf(*item.order, claim);
  if (claim.discards) {
    ReleaseRecords(*parts_.growing, ids);  // positions of a lane that is done are passed over
    Locked lock(*this);
    state_.queues.SetPlanning(false);
    WakeWorkersLocked();
    return;
  }
  std::vector<ScanRun*> runs;
  for (size_t i = 0; i < ids.size();) {
    ScanRun* const run = runs.emplace_back(TakeRun(item.idle));
    i += static_cast<size_t>(planner_.FillRun(claim, ids, i, *run));
  }
  std::vector<ScanRun*> admitted;
  {
    Locked lock(*this);
    // One worker plans at a time, so blocks come onto the board in the order of claims.
    state_.pass_one.Append(claim, runs);
    state_.profiler.EndOrder(ProfileNow());
    state_.queues.SetPlanning(false);
    admitted = state_.queues.AdmitPlanned(runs);
    WakeWorkersLocked();
  }
  Submit(admitted);
}

void Executor::Execute(ExamineItem& item) {
  ScanRun& run = *item.run;
  if (item.scratch == nullptr) {
    item.scratch = std::make_unique<RunScratch>(processor_.MakeScratch());
  }
  const int64_t begin_ns = Now();
  Scanner::Findings findings = scanner_->Examine(run, *item.scratch);
  const int64_t worked_ns = Now() - begin_ns;
  counters_.work_nanoseconds.Add(worked_ns);
  sizes_.LearnScan(worked_ns, run.num_rows());
  if (!run.known) counters_.records_examined.Add(run.num_rows());
  std::unique_ptr<RunScratch> scratch = CountScratch(std::move(item.scratch));
  scanner_->Keep(run, findings);
  run.records.buffer.reset();  // not under the mutex
  Locked lock(*this);
  state_.queues.GiveBack(std::move(scratch));
  if (run.records.reserved_bytes != 0) {
    budget_->Release(std::exchange(run.records.reserved_bytes, 0));
  }
  state_.pass_one.PutFindings(run, std::move(findings.found));
  run.Clear();
  state_.queues.scan().GiveBack(&run);
  state_.queues.scan().Finished();
}

// Tells the settler the findings at the heads of the lanes' queues, until there are none. Owns the
// settler meanwhile.
void Executor::Execute(SettleItem&) {
  const int64_t begin_ns = ProfileNow();
  while (true) {
    PassOne::Turn turn;
    uint64_t elements = 0;
    {
      Locked lock(*this);
      turn = state_.pass_one.TakeTurn(choice_.ClosedRoom(state_));
      elements = state_.growth.elements();
      if (state_.stopped || turn.idle) {
        state_.pass_one.EndSettling();
        state_.profiler.AddSerial(ProfileNow() - begin_ns);
        return CheckProgressLocked();
      }
    }
    absl::StatusOr<ClosedBatches> closed = Settle(parts_, elements, *budget_, turn);
    if (!closed.ok()) return StopSettling(closed.status());
    Locked lock(*this);
    state_.pass_one.EndTurn(std::move(closed->batches), closed->more);
    WakeWorkersLocked();
    if (state_.pass_one.settled() && state_.ring.empty()) state_.ring.CallConsumer();
  }
}

// Runs.

// Returns one of those that an item has at hand, or one of the pool.
template <typename Run>
Run* Executor::TakeRun(RunList<Run>& idle) {
  if (idle.empty()) {
    Locked lock(*this);
    return state_.queues.of<Run>().Take();
  }
  Run* const run = idle.back();
  idle.pop_back();
  return run;
}

template <typename Run>
void Executor::Submit(const std::vector<Run*>& runs) {
  for (Run* const run : runs) Submit(run);
}

template <typename Run>
void Executor::Submit(Run* run) {
  std::vector<ReadRequest> reads = MakeReads(*parts_.source, run->records);
  if (reads.empty()) planner_.NoteRead(*run);
  // Made here, where no memory for it ends no more than the item.
  std::vector<absl::Status> unread(reads.size());
  run->records.submitted_ns = ProfileNow();
  {
    Locked lock(*this);
    if (reads.empty()) return state_.queues.of<Run>().PutReady(run);
    ++reads_;
    state_.profiler.reads().Begin(run->records.submitted_ns);
  }
  // Not under the mutex: the engine may call back before it returns.
  const auto on_read = [this, run](std::vector<absl::Status> status) {
    OnRead(run, std::move(status));
  };
  const absl::Status thrown =
      Caught([&] { parts_.context->io().Submit(std::move(reads), on_read); });
  if (thrown.ok()) return;
  std::ranges::fill(unread, thrown);
  on_read(std::move(unread));
}

template <typename Run>
void Executor::OnRead(Run* run, std::vector<absl::Status> status) {
  run->records.read_status = std::move(status);
  counters_.bytes_read.Add(run->records.bytes());
  fetch_watch_.Read(run->records);
  planner_.NoteRead(*run);
  {
    const int64_t now_ns = ProfileNow();
    Locked lock(*this);
    state_.profiler.reads().End(now_ns, run->records);
    if (!run->records.alone && NeedsSingleReads(run->records)) {
      run->records.alone = true;
      state_.queues.of<Run>().PutRetry(run);
    } else {
      state_.queues.of<Run>().PutReady(run);
    }
    NoteWaitLocked(now_ns);
    WakeWorkersLocked();
  }
  MutexLock lock(mu_);
  --reads_;  // until here it keeps the executor
  // The consumer may wait for no more than that nothing is under way.
  const bool idle = NothingUnderWayLocked() && state_.ring.empty() && !state_.ring.opening();
  if (idle) batch_ready_.NotifyAll();
  NotifyIfIdleLocked();
}

void Executor::FinishRunLocked(RowsRun& run) {
  for (BadRow& bad : run.bad_rows) {
    if (!bad.tolerable) state_.ring.NoteError();
    run.batch->AddBadRow(std::move(bad));
  }
  state_.queues.rows().Finished();
  run.Clear();
}

// Counts the growth of the arena. A large one is freed when the budget is over its limit, so that
// one large record does not take the room of all that follow.
std::unique_ptr<RunScratch> Executor::CountScratch(std::unique_ptr<RunScratch> scratch) {
  const auto capacity = static_cast<int64_t>(scratch->arena.capacity_bytes());
  if (capacity != scratch->reserved_bytes) budget_->Reserve(capacity - scratch->reserved_bytes);
  scratch->reserved_bytes = capacity;
  if (capacity > kKeptArenaBytes && !budget_->Fits(0)) {
    scratch.reset();
    budget_->Release(capacity);
  }
  return scratch;
}

// Batches whose rows have all landed, or that are ready.

void Executor::FilledLocked(OpenBatch* batch, int64_t now_ns) {
  const bool to_do = !parts_.batch_ops.empty() || !batch->tolerable.empty();
  if (to_do && batch->error.ok()) {
    state_.ring.PutFilled(batch);
  } else {
    ReadyLocked(batch, now_ns);
  }
}

void Executor::ReadyLocked(OpenBatch* batch, int64_t now_ns) {
  state_.ring.PutReady(batch, ItemsAreShort(batch->data->layout->slab_bytes));
  state_.profiler.SetReady(now_ns, state_.ring.num_ready());
  AdaptLocked();
}

// True if every item that a worker may do next ends soon.
bool Executor::ItemsAreShort(size_t next_slab_bytes) const {
  return sizes_.RowsAreShort() && (scanner_ == nullptr || sizes_.ScansAreShort()) &&
         parts_.batch_ops.empty() && next_slab_bytes <= kSmallSlabBytes;
}

// Sends the next candidate for each damaged row on the way of any row. They come back through
// FilledLocked.
void Executor::TryCandidates(OpenBatch& batch) {
  const std::vector<BadRow> rows = std::exchange(batch.tolerable, {});
  std::vector<RowsRun*> runs;
  {
    Locked lock(*this);
    for (size_t i = 0; i < rows.size(); ++i) runs.push_back(state_.queues.rows().Take());
  }
  for (size_t i = 0; i < rows.size(); ++i) planner_.FillCandidate(rows[i], batch, *runs[i]);
  ++batch.candidates;
  std::vector<RowsRun*> admitted;
  {
    Locked lock(*this);
    batch.remaining_rows += static_cast<int64_t>(runs.size());
    admitted = state_.queues.AdmitPlanned(runs);
    WakeWorkersLocked();
  }
  Submit(admitted);
}

// Pass 1, and a source that grows.

void Executor::StopSettling(const absl::Status& status) {
  Locked lock(*this);
  state_.pass_one.EndSettling();
  if (!state_.stopped) StopLocked(status);
  state_.ring.CallConsumer();
}

// Stops a stream whose settler neither ends nor asks for anything: the consumer would wait for it
// without end.
void Executor::CheckProgressLocked() {
  const bool stuck = !state_.stopped && !state_.queues.planning() && state_.ring.empty() &&
                     !state_.ring.opening() && !state_.growth.may_grow() &&
                     state_.pass_one.IsStuck();
  if (!stuck) return;
  StopLocked(absl::InternalError("pass 1 came to its end before the settler did"));
  state_.ring.CallConsumer();
}

void Executor::NoticeGrowthLocked() {
  if (state_.stopped) return;
  const absl::StatusOr<Growth::News> news = state_.growth.Look();
  if (!news.ok()) return StopLocked(news.status());
  if (scanner_ == nullptr || *news == Growth::News::kNone) return;
  state_.pass_one.SetEnds(LaneSizes(parts_.plan, state_.growth.elements()));
  if (*news == Growth::News::kEnd) state_.pass_one.NoteEnd();
}

// With a cut it is not known how many records the oldest batch lacks: when nothing else can be
// done, one more position is asked for.
void Executor::WantForPassOneLocked() {
  if (scanner_ == nullptr || !state_.growth.may_grow() || state_.stopped) return;
  const PassOne& pass_one = state_.pass_one;
  const bool works = pass_one.settled() || state_.queues.planning() || state_.ring.opening() ||
                     !state_.ring.empty() || pass_one.HasWork();
  if (works) return;
  const auto position = pass_one.FirstMissing(parts_.plan.lanes, LaneBlock(parts_.plan));
  if (position.has_value()) state_.growth.Want(*position);
}

// Adapting. The adapter is asked when a batch is ready, when a worker finds nothing to do, and each
// millisecond while the consumer waits. It is obeyed at once: no item is begun beyond the goal,
// and no batch opened.

int64_t Executor::Now() const {
  if (parts_.clock) return parts_.clock();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Executor::AdaptLocked() {
  if (!state_.demand.adapts() || state_.stopped) return;
  ObeyLocked(state_.demand.Look(Now(), state_.ring, *budget_));
}

void Executor::ObeyLocked(const Goals& goals) {
  const auto [threads, batches] = state_.demand.Clamp(goals);
  if (threads == state_.demand.threads() && batches == state_.ring.length()) return;
  counters_.threads.Add(threads - state_.demand.threads());
  counters_.ring.Add(batches - state_.ring.length());
  state_.demand.SetThreads(threads);
  state_.profiler.SetGoal(ProfileNow(), threads);
  state_.ring.SetLength(batches);
  WakeWorkersLocked();
}

}  // namespace millrace::pipeline
