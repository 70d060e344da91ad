#include "pipeline/executor/choice.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {
namespace {

// The time of the work that is done in one item of several runs.
constexpr int64_t kTurnNanoseconds = 200'000;

}  // namespace

Choice::Choice(const ExecutorParts& parts, const RunSizes& sizes)
    : parts_(parts),
      sizes_(sizes),
      budget_(*parts.context->memory_budget()),
      has_cut_(parts.has_cut()) {}

int64_t Choice::ReadAhead(const ExecutorState& state) const {
  if (parts_.read_ahead_runs > 0) return parts_.read_ahead_runs;
  return 2 * state.demand.threads() + 8;
}

bool Choice::AtEnd(const ExecutorState& state) const {
  if (has_cut_) return state.pass_one.settled() && !state.pass_one.has_closed();
  return state.ring.next_batch() == state.growth.order().num_batches();
}

bool Choice::HasNext(const ExecutorState& state) const {
  if (has_cut_) return state.pass_one.has_closed();
  return !AtEnd(state) && state.growth.Knows(state.ring.next_batch(), state.ring.empty());
}

int64_t Choice::NextBatchBytes(const ExecutorState& state) const {
  if (!state.pass_one.has_closed()) return static_cast<int64_t>(parts_.layout->slab_bytes);
  const ClosedWork& next = state.pass_one.next_closed();
  const size_t slab_bytes = next.layout == nullptr ? 0 : next.layout->slab_bytes;
  return static_cast<int64_t>(slab_bytes + next.batch.state.size());
}

Choice::Admission Choice::AdmissionOfNext(const ExecutorState& state) const {
  if (!HasNext(state)) return Admission::kWait;
  const int64_t bytes = NextBatchBytes(state);
  if (budget_.Fits(bytes)) return Admission::kYes;
  if (!state.ring.empty()) return Admission::kWait;
  return budget_.HeldLeavesNoRoomFor(bytes) ? Admission::kHeldByConsumer : Admission::kYes;
}

// Rows of a closed batch are known; other rows need the order, which one worker evaluates at a
// time.
bool Choice::MayClaimRows(const ExecutorState& state) const {
  return state.ring.HasUnclaimedRows() && (state.ring.last().closed || !state.queues.planning());
}

bool Choice::MayOpen(const ExecutorState& state) const {
  return state.ring.MayOpen() && AdmissionOfNext(state) == Admission::kYes;
}

uint64_t Choice::ScanAhead(const ExecutorState& state) const {
  const uint64_t rows_per_lane = parts_.plan.batch.size / parts_.plan.lanes + 1;
  return state.pass_one.ScanAhead(rows_per_lane, ClosedRoom(state),
                                  static_cast<uint64_t>(sizes_.RowsPerScan()));
}

bool Choice::MayScan(const ExecutorState& state, uint64_t ahead) const {
  return !state.queues.planning() && !state.ring.error_seen() && !state.queues.scan().waits() &&
         state.pass_one.MayClaim(ahead, state.ring.length(), ReadAhead(state));
}

bool Choice::PickPlan(ExecutorState& state, WorkItem& item) const {
  if (!MayClaimRows(state)) return MayOpen(state) && PickOpen(state, item);
  OpenBatch& batch = state.ring.last();
  PlanItem& plan = item.emplace<PlanItem>();
  plan.batch = &batch;
  plan.first_row = batch.claimed_rows;
  plan.num_rows = std::min(sizes_.RowsPerPlan(), batch.num_work_rows - batch.claimed_rows);
  plan.rows_per_run = sizes_.RowsPerRun();
  batch.claimed_rows += plan.num_rows;
  if (!batch.closed) state.queues.SetPlanning(true);
  state.queues.rows().TakeIdle((plan.num_rows - 1) / plan.rows_per_run + 1, plan.idle);
  return true;
}

bool Choice::PickOpen(ExecutorState& state, WorkItem& item) const {
  const int64_t bytes = NextBatchBytes(state);
  // Between the check and here another pipeline may have taken the room: with batches of our own in
  // the ring that means waiting, without any the batch is the oldest and goes over the limit.
  if (!budget_.TryReserve(bytes)) {
    if (!state.ring.empty()) return false;
    budget_.Reserve(bytes);
  }
  OpenItem& open = item.emplace<OpenItem>();
  open.reserved_bytes = bytes;
  uint64_t index = state.ring.next_batch();
  if (has_cut_) {
    std::unique_ptr<ClosedWork> closed = state.pass_one.TakeClosed();
    index = closed->batch.index;
    open.batch = std::move(closed);
  } else {
    open.batch = NextBatch{&state.growth.order(), index};
  }
  open.blank = state.ring.BeginOpening(index);
  return true;
}

bool Choice::PickScan(ExecutorState& state, WorkItem& item) const {
  if (!has_cut_) return false;
  const uint64_t ahead = ScanAhead(state);  // once: it follows costs that others measure meanwhile
  if (MayScan(state, ahead)) {
    state.queues.SetPlanning(true);
    ScanItem& scan = item.emplace<ScanItem>();
    scan.order = &state.growth.order();
    scan.claim = state.pass_one.Claim(static_cast<uint64_t>(sizes_.RowsPerScan()), ahead);
    state.queues.scan().TakeIdle(1, scan.idle);
    return true;
  }
  if (state.queues.scan().num_ready() == 0) return false;
  ExamineItem& examine = item.emplace<ExamineItem>();
  examine.run = state.queues.scan().TakeReady();
  examine.scratch = state.queues.TakeScratch();
  return true;
}

// The lowest runs whose bytes have come.
bool Choice::PickProcess(ExecutorState& state, WorkItem& item) const {
  PassRuns<RowsRun>& rows = state.queues.rows();
  if (rows.num_ready() == 0) return false;
  ProcessItem& process = item.emplace<ProcessItem>();
  process.batch = rows.first_ready().batch;
  do {
    RowsRun* const run = rows.TakeReady();
    process.runs.push_back(run);
    process.num_rows += run->num_rows();
  } while (MayJoin(state, process));
  process.scratch = state.queues.TakeScratch();
  return true;
}

// True if `item` may have the lowest ready run too: it is of the same batch, all is done soon, one
// is left for every worker, and no run waits for the memory that this one gives back at the end of
// the item.
bool Choice::MayJoin(const ExecutorState& state, const ProcessItem& item) const {
  const PassRuns<RowsRun>& rows = state.queues.rows();
  if (item.runs.size() == kMostRuns) return false;
  if (rows.num_ready() < static_cast<size_t>(state.demand.threads())) return false;
  if (rows.waits() || state.queues.scan().waits()) return false;
  const RowsRun& run = rows.first_ready();
  const int64_t cost = sizes_.row_ns();
  return cost > 0 && run.batch == item.batch &&
         (item.num_rows + run.num_rows()) * cost <= kTurnNanoseconds;
}

// A run whose reads are to begin.
bool Choice::PickSubmit(ExecutorState& state, WorkItem& item) const {
  RunQueues& queues = state.queues;
  if (queues.NothingToSubmit()) return false;
  RowsRun* rows = queues.rows().TakeRetry();
  ScanRun* scan = rows == nullptr ? queues.scan().TakeRetry() : nullptr;
  if (rows == nullptr && scan == nullptr) rows = queues.TakeAdmitted<RowsRun>();
  if (rows == nullptr && scan == nullptr) scan = queues.TakeAdmitted<ScanRun>();
  if (rows != nullptr) item = SubmitItem<RowsRun>{rows};
  if (scan != nullptr) item = SubmitItem<ScanRun>{scan};
  return rows != nullptr || scan != nullptr;
}

// Reads to begin, and short work that others wait for.
bool Choice::PickUrgent(ExecutorState& state, WorkItem& item) const {
  if (PickSubmit(state, item)) return true;
  if (OpenBatch* const batch = state.ring.TakeFilled()) {
    item = FinishItem{batch};
    return true;
  }
  if (!has_cut_ || !state.pass_one.MaySettle(state.ring.length())) return false;
  state.pass_one.BeginSettling();
  item = SettleItem();
  return true;
}

bool Choice::Pick(ExecutorState& state, WorkItem& item) const {
  if (state.stopped || state.demand.busy() >= state.demand.threads()) return false;
  if (PickUrgent(state, item)) return true;
  const PassRuns<RowsRun>& rows = state.queues.rows();
  const bool may_plan = !rows.waits();
  if (may_plan && rows.num_unfinished() < ReadAhead(state) && PickPlan(state, item)) return true;
  if (PickProcess(state, item)) return true;
  return (may_plan && PickPlan(state, item)) || PickScan(state, item);
}

int64_t Choice::NumAvailable(const ExecutorState& state) const {
  if (state.stopped) return 0;
  const RunQueues& queues = state.queues;
  auto items = static_cast<int64_t>(queues.rows().num_ready() + queues.rows().num_retries() +
                                    state.ring.num_filled());
  if (!queues.rows().waits()) {
    items += MayClaimRows(state) || MayOpen(state) ? 1 : 0;
  } else {
    items += queues.FirstWaitingFits(queues.rows()) ? 1 : 0;
  }
  if (!has_cut_) return items;
  items += static_cast<int64_t>(queues.scan().num_ready() + queues.scan().num_retries());
  items += queues.FirstWaitingFits(queues.scan()) ? 1 : 0;
  items += state.pass_one.MaySettle(state.ring.length()) ? 1 : 0;
  return items + (MayScan(state, ScanAhead(state)) ? 1 : 0);
}

// True if the memory budget alone keeps the next batch from being opened, or its bytes from being
// read.
bool Choice::WaitsForBudget(const ExecutorState& state) const {
  if (state.queues.rows().waits() || state.queues.scan().waits()) return true;
  return state.ring.empty() && !state.ring.opening() && HasNext(state) &&
         AdmissionOfNext(state) != Admission::kYes;
}

// True if a worker has the order or the settler, and the next batch needs its outcome.
bool Choice::WaitsForOrder(const ExecutorState& state) const {
  if (state.pass_one.settling()) return true;
  const bool front_is_claimed =
      state.ring.num_open() > 1 || (!state.ring.empty() && !state.ring.HasUnclaimedRows());
  return state.queues.planning() && !front_is_claimed;
}

// Looked at in this order: the first that holds is the reason, since none of those behind it would
// be one without it.
WaitCause Choice::CauseOfWait(const ExecutorState& state) const {
  if (!state.ring.empty() && state.ring.front_is_ready()) return WaitCause::kHandOff;
  if (state.demand.busy() >= state.demand.threads()) return WaitCause::kWork;
  if (WaitsForBudget(state)) return WaitCause::kBudget;
  if (NumAvailable(state) > 0) return WaitCause::kWorkers;
  if (WaitsForOrder(state)) return WaitCause::kOrder;
  if (state.profiler.reads().under_way() > 0) return WaitCause::kReading;
  if (state.demand.busy() > 0) return WaitCause::kRing;
  return state.growth.may_grow() ? WaitCause::kSource : WaitCause::kWorkers;
}

}  // namespace millrace::pipeline
