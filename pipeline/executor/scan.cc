#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/executor/executor.h"
#include "pipeline/stages/apply_caught.h"

// Pass 1: records are looked at in any order, settled in the order of their lanes. What was found
// out about a stretch of positions waits on the board, a few words a row; read buffers are free
// again before that, so pass 1 never holds memory that pass 2 waits for.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kShareWindow = 1 << 16;  // positions over which the share of kept rows is taken

std::vector<std::string_view> PayloadsOf(const Run& run) {
  const Column& column = run.Get(kRecordColumn);
  std::vector<std::string_view> payloads(static_cast<size_t>(run.num_rows()));
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (run.ok(row)) payloads[static_cast<size_t>(row)] = column.bytes(row);
  }
  return payloads;
}

uint64_t CountKept(const Examined& found, int num_filters) {
  return static_cast<uint64_t>(std::ranges::count_if(
      found.rows, [&](const Examined::Row& row) { return row.passed_filters == num_filters; }));
}

}  // namespace

// The samples of a claim, by the order.
std::vector<SampleId> Executor::IdsOf(const BatchOrder& order, const ScanClaim& claim) {
  const LaneOrder lane(order.records(), claim.lane, parts_.plan.lanes, LaneBlock(parts_.plan));
  OrderMemo* const memo = MemoOf(order);
  std::vector<SampleId> ids(claim.count);
  if (claim.reopens) {
    for (size_t i = 0; i < ids.size(); ++i) lane.Fill(claim.positions[i], {&ids[i], 1}, memo);
  } else {
    lane.Fill(claim.first, ids, memo);
  }
  return ids;
}

std::vector<RunWork*> Executor::CutScanRuns(WorkItem& item, std::span<const SampleId> ids) {
  const ScanClaim& claim = item.claim;
  std::vector<RunWork*> runs;
  for (size_t i = 0; i < ids.size();) {
    RunWork* const run = runs.emplace_back(TakeRun(item));
    const std::span<const SampleId> rest = ids.subspan(i);
    const auto rows = static_cast<size_t>(
        LocateRun(*parts_.source, parts_.zip.get(), rest, processor_.preferred_rows(), *run));
    run->ids.assign(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(rows));
    run->position = claim.first + i;
    if (claim.reopens) {
      const auto first = claim.positions.begin() + static_cast<ptrdiff_t>(i);
      run->position = *first;
      run->positions.assign(first, first + static_cast<ptrdiff_t>(rows));
    }
    i += rows;
  }
  return runs;
}

void Executor::ScanRuns(WorkItem& item) {
  const ScanClaim& claim = item.claim;
  const std::vector<SampleId> ids = IdsOf(*item.order, claim);
  if (claim.discards) return Discard(ids);
  const std::vector<RunWork*> runs = CutScanRuns(item, ids);
  std::vector<RunWork*> admitted;
  {
    Locked lock(*this);
    // One worker plans at a time, so blocks come into the rings in the order of claims.
    uint64_t first = claim.first;
    for (RunWork* run : runs) {
      const uint64_t end = first + static_cast<uint64_t>(run->num_rows());
      run->block = board_.Append(claim, first, end);
      first = end;
    }
    planning_ = false;
    admitted = AdmitLocked(scan_, runs);
    WakeWorkersLocked();
  }
  for (RunWork* run : admitted) Submit(run);
}

// `payloads`, where it is not null: of the records, in the read buffer.
void Executor::Examine(const RunWork& work, RunScratch& scratch, Examined& found,
                       std::vector<std::string_view>* payloads) const {
  scratch.arena.Reset();
  Run run(scratch.arena, parts_.plan.seed, work.position, work.ids.data(), work.num_rows());
  processor_.Load(work, run);
  if (payloads != nullptr) *payloads = PayloadsOf(run);
  examiner_->Examine(run, work.positions, &found);
}

// Ops may throw: then each record is looked at by itself, and only those that throw alone are bad.
Examined Executor::ExamineCaught(const RunWork& work, RunScratch& scratch,
                                 std::vector<std::string_view>* payloads) const {
  Examined found;
  if (Caught([&] { Examine(work, scratch, found, payloads); }).ok()) return found;
  found = Examined();
  if (payloads != nullptr) payloads->clear();
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    const RunWork single = SingleRow(work, row);
    const size_t rows = found.rows.size();
    const size_t extents = found.extents.size();
    const absl::Status thrown = Caught([&] { Examine(single, scratch, found, nullptr); });
    if (thrown.ok()) continue;
    found.rows.resize(rows);
    found.extents.resize(extents + examiner_->extents_per_row());
    found.rows.push_back({.origin = {work.ids[static_cast<size_t>(row)], work.position_of(row)},
                          .passed_filters = parts_.plan.cut->num_filters,
                          .error = static_cast<int32_t>(found.errors.size())});
    found.errors.push_back(thrown);
  }
  return found;
}

// Whether pass 2 may want the records that `run` looks at, and they may wait for it.
bool Executor::MayKeep(const RunWork& run) const {
  const ScanBlock& block = *run.block;
  return run.bytes() > 0 && parts_.zip == nullptr && !block.reopens &&
         block.found.lane - own_lanes_.first_row < static_cast<uint64_t>(own_lanes_.num_rows) &&
         keeper_.HasRoomFor(run.bytes()) && budget_->Fits(0);
}

void Executor::Keep(RunWork& run, std::vector<std::string_view> payloads) {
  const auto view_bytes = static_cast<int64_t>(payloads.size() * sizeof(std::string_view));
  budget_->Reserve(view_bytes);
  auto records = std::make_shared<KeptRecords>();
  records->first = run.position;
  records->payloads = std::move(payloads);
  records->buffer = std::move(run.buffer);
  records->budget = budget_;
  records->reserved_bytes = std::exchange(run.reserved_bytes, 0) + view_bytes;
  keeper_.Keep(run.block->found.lane, std::move(records));
}

void Executor::ExamineRun(WorkItem& item) {
  RunWork* const run = item.run;
  if (item.scratch == nullptr) item.scratch = MakeScratch();
  const int64_t begin_ns = Now();
  const bool may_keep = MayKeep(*run);
  std::vector<std::string_view> payloads;
  Examined found = ExamineCaught(*run, *item.scratch, may_keep ? &payloads : nullptr);
  LearnCost(scan_nanoseconds_, Now() - begin_ns, run->num_rows());
  counters_.records_examined.Add(run->num_rows());
  std::unique_ptr<RunScratch> scratch = CountScratch(std::move(item.scratch));
  ScanBlock* const block = run->block;
  const auto num_rows = static_cast<uint64_t>(run->num_rows());
  const uint64_t kept = CountKept(found, parts_.plan.cut->num_filters);
  if (parts_.growing != nullptr) TellUses(*run, found);
  if (kept > 0 && !payloads.empty()) Keep(*run, std::move(payloads));
  run->DropRecords();  // not under the mutex
  Locked lock(*this);
  KeepScratchLocked(std::move(scratch));
  barren_.LookedAt(run->ids, kept);
  if (run->reserved_bytes != 0) budget_->Release(std::exchange(run->reserved_bytes, 0));
  run->Clear();
  idle_runs_.push_back(run);
  --scan_.unfinished;
  --scan_.admitted;
  found.num_kept = kept;
  found.lane = block->found.lane;
  found.first = block->found.first;
  found.end = block->found.end;
  block->found = std::move(found);
  block->done = true;
  examined_rows_ += num_rows;
  kept_rows_ += kept;
  if (examined_rows_ < kShareWindow) return;
  examined_rows_ /= 2;
  kept_rows_ /= 2;
}

// Tells the settler what lies at the heads of the rings, until nothing does; owns it meanwhile.
void Executor::Settle() {
  while (true) {
    ScanBoard::Heads heads;
    size_t room = 0;
    bool end_is_due = false;
    uint64_t elements = 0;
    {
      Locked lock(*this);
      heads = board_.TakeHeads();
      for (const Examined& found : heads.found) {
        barren_.CameBy(found.lane, found.end - found.first, found.num_kept);
      }
      room = ClosedRoomLocked();
      const bool take = more_closed_ && room > 0;
      end_is_due = std::exchange(end_is_due_, false);
      elements = known_elements_;
      if (stopped_ || settled_ || (heads.empty() && !take && !end_is_due)) {
        settling_ = false;
        CheckProgressLocked();
        return;
      }
    }
    for (const Examined& rows : heads.reopened) {
      const absl::Status status = settler_->Reopen(rows.lane, rows);
      if (!status.ok()) return StopSettling(status);
    }
    for (Examined& found : heads.found) {
      if (!settler_->ended()) settler_->Settle(std::move(found));
    }
    if (end_is_due) settler_->EndInput(LaneSizes(parts_.plan, elements));
    bool more = false;
    std::vector<std::unique_ptr<ClosedWork>> closed = TakeClosed(room, &more);
    if (parts_.growing != nullptr) parts_.growing->Release(settler_->TakeDropped());
    Locked lock(*this);
    for (auto& work : closed) closed_.push_back(std::move(work));
    more_closed_ = more;
    settled_ = !more && settler_->ended();
    reached_end_ = settler_->reached_end();
    board_.Update(*settler_);
    WakeWorkersLocked();
    if (settled_ && ring_.empty()) consumer_to_call_ = true;
  }
}

// At most `room` closed batches, and one where the memory budget has no more room; `more`: perhaps
// not all there are.
std::vector<std::unique_ptr<ClosedWork>> Executor::TakeClosed(size_t room, bool* more) {
  std::vector<std::unique_ptr<ClosedWork>> closed;
  *more = true;
  while (closed.size() < room && (closed.empty() || budget_->Fits(0))) {
    std::optional<ClosedBatch> batch = settler_->Take();
    if (!batch.has_value()) {
      *more = false;
      break;
    }
    auto work = std::make_unique<ClosedWork>(*std::move(batch), *budget_);
    if (parts_.plan.batch.kind == BatchSpec::Kind::kFixed) {
      work->layout = parts_.layout;
    } else if (auto layout = MakeClosedLayout(parts_.plan, work->batch); layout.ok()) {
      work->layout = std::make_shared<const BatchLayout>(*std::move(layout));
    } else {
      work->layout_error =
          Annotate(layout.status(), ToStd(absl::StrCat("stage \"", parts_.plan.batch.stage, "\"")));
    }
    closed.push_back(std::move(work));
  }
  return closed;
}

void Executor::StopSettling(const absl::Status& status) {
  Locked lock(*this);
  settling_ = false;
  if (!stopped_) StopLocked(status);
  consumer_to_call_ = true;
}

// A settler that neither ends nor asks for anything would be waited for without end.
void Executor::CheckProgressLocked() {
  const bool waits = !stopped_ && !settled_ && !more_closed_ && !planning_ && closed_.empty() &&
                     ring_.empty() && !opening_ && board_.num_blocks() == 0 && !barren_.barren() &&
                     !MayGrowLocked() && !end_is_due_;
  if (!waits || board_.MayClaim(1)) return;
  StopLocked(absl::InternalError("pass 1 came to its end before the settler did"));
  consumer_to_call_ = true;
}

}  // namespace millrace::pipeline
