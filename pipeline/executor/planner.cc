#include "pipeline/executor/planner.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline {

Planner::Planner(const ExecutorParts& parts, RecordKeeper& keeper, int64_t preferred_rows)
    : parts_(parts),
      preferred_rows_(preferred_rows),
      keeper_(keeper),
      lookahead_(parts.lookahead.has_value() ? std::make_unique<Lookahead>(parts) : nullptr),
      memo_(parts.order.records()),
      memo_order_(&parts.order) {}

OrderMemo* Planner::MemoOf(const BatchOrder& order) {
  if (&order != memo_order_) memo_ = OrderMemo(order.records());
  memo_order_ = &order;
  return &memo_;
}

void Planner::Clear() {
  if (lookahead_ != nullptr) lookahead_->Clear();
}

void Planner::FillIds(const PlanItem& item) {
  OpenBatch& batch = *item.batch;
  if (lookahead_ != nullptr) {
    const uint64_t first = batch.first_position + static_cast<uint64_t>(item.first_row);
    lookahead_->Reach(first, first + static_cast<uint64_t>(item.num_rows));
  }
  const uint64_t first_row = parts_.slice.first_row + static_cast<uint64_t>(item.first_row);
  batch.order->Fill(batch.place, first_row,
                    {batch.data->ids() + item.first_row, static_cast<size_t>(item.num_rows)},
                    MemoOf(*batch.order));
}

std::vector<SampleId> Planner::IdsOf(const BatchOrder& order, const ScanClaim& claim) {
  const LaneOrder lane(order.records(), claim.lane, parts_.plan.lanes, LaneBlock(parts_.plan));
  OrderMemo* const memo = MemoOf(order);
  if (lookahead_ != nullptr && !claim.reopens && !claim.discards) {
    lookahead_->Reach(claim.first, claim.first + claim.count);
  }
  std::vector<SampleId> ids(claim.count);
  if (claim.reopens) {
    for (size_t i = 0; i < ids.size(); ++i) lane.Fill(claim.positions[i], {&ids[i], 1}, memo);
  } else {
    lane.Fill(claim.first, ids, memo);
  }
  return ids;
}

int64_t Planner::FillRun(const PlanItem& item, int64_t row, RowsRun& run) const {
  run.batch = item.batch;
  return item.batch->closed ? FillClosed(item, row, run) : FillOpen(item, row, run);
}

int64_t Planner::FillOpen(const PlanItem& item, int64_t row, RowsRun& run) const {
  run.first_row = item.first_row + row;
  run.position = item.batch->first_position + static_cast<uint64_t>(run.first_row);
  auto rows = static_cast<size_t>(std::min(item.rows_per_run, item.num_rows - row));
  if (lookahead_ != nullptr) rows = std::min(rows, lookahead_->LeftInChunk(run.position));
  const int64_t located = LocateRun(*parts_.source, parts_.sample_parts(), {run.ids(), rows},
                                    preferred_rows_, run.records);
  if (lookahead_ == nullptr) return located;
  run.expected_rows = located;
  if (run.records.bytes() == 0) NoteRead(run);  // no read follows
  return located;
}

// Rows of a closed batch need not lie side by side: the slots of a short lane's missing rows are
// between them.
int64_t Planner::FillClosed(const PlanItem& item, int64_t row, RowsRun& run) const {
  const OpenBatch& batch = *item.batch;
  const std::span rows =
      std::span(batch.rows)
          .subspan(static_cast<size_t>(item.first_row + row),
                   static_cast<size_t>(std::min(item.rows_per_run, item.num_rows - row)));
  run.first_row = rows.front().slot;
  run.position = batch.first_position + static_cast<uint64_t>(run.first_row);
  size_t count = 1;
  while (count < rows.size() && rows[count].slot == run.first_row + static_cast<int64_t>(count)) {
    ++count;
  }
  const int64_t kept = TakeKept(keeper_, rows.first(count), preferred_rows_, run);
  if (kept > 0) return kept;
  return LocateRun(*parts_.source, parts_.sample_parts(), {run.ids(), count}, preferred_rows_,
                   run.records);
}

int64_t Planner::FillRun(const ScanClaim& claim, std::span<const SampleId> ids, size_t first,
                         ScanRun& run) const {
  std::span<const SampleId> rest = ids.subspan(first);
  const bool expected = lookahead_ != nullptr && !claim.reopens;
  if (expected) {
    const uint64_t left = lookahead_->LeftInChunk(claim.first + first);
    rest = rest.first(std::min<uint64_t>(rest.size(), left));
  }
  const int64_t rows = TakeKnown(rest, run) ? run.records.rows
                                            : LocateRun(*parts_.source, parts_.sample_parts(), rest,
                                                        preferred_rows_, run.records);
  run.ids.assign(rest.begin(), rest.begin() + rows);
  run.position = claim.first + first;
  if (claim.reopens) {
    const auto begin = claim.positions.begin() + static_cast<ptrdiff_t>(first);
    run.position = *begin;
    run.positions.assign(begin, begin + rows);
  }
  if (expected) run.expected_rows = rows;
  if (run.records.bytes() == 0) NoteRead(run);  // no read follows
  return rows;
}

// Shortens `ids` to the first ones that are all known, or all not. True if they are known: then
// they are `run`, and nothing has to be read.
bool Planner::TakeKnown(std::span<const SampleId>& ids, ScanRun& run) const {
  if (parts_.lengths == nullptr) return false;
  const auto knows = [this](const SampleId& id) { return parts_.lengths->Knows(id.record); };
  run.known = knows(ids.front());
  const auto end =
      std::ranges::find_if(ids, [&](const SampleId& id) { return knows(id) != run.known; });
  ids = ids.first(static_cast<size_t>(end - ids.begin()));
  if (!run.known) return false;
  run.records.starts.clear();  // of no bytes
  run.records.rows = static_cast<int64_t>(ids.size());
  return true;
}

void Planner::FillCandidate(const BadRow& bad, OpenBatch& batch, RowsRun& run) const {
  // Windows have no other numbers than those of all there are.
  const Selection* const selection = parts_.windows == nullptr ? parts_.selection.get() : nullptr;
  const uint64_t count = selection != nullptr ? selection->num_kept() : parts_.num_records();
  run.batch = &batch;
  run.first_row = bad.row;
  run.position = batch.first_position + static_cast<uint64_t>(bad.row);
  SampleId& id = batch.data->ids()[bad.row];
  const DamagedSample& damaged =
      *std::ranges::find(batch.data->damaged, bad.row, &DamagedSample::row);
  id = Candidate(parts_.plan.seed, damaged, run.position, batch.candidates, count, selection);
  LocateRun(*parts_.source, parts_.sample_parts(), {&id, 1}, 1, run.records);
}

void Planner::NoteRead(uint64_t position, int64_t& expected_rows) const {
  const int64_t rows = std::exchange(expected_rows, 0);
  if (rows > 0) lookahead_->Read(position, rows);
}

}  // namespace millrace::pipeline
