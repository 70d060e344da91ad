#include "pipeline/executor/scanner.h"

#include <algorithm>
#include <utility>

#include "pipeline/executor/growth.h"
#include "pipeline/stages/apply_caught.h"

namespace millrace::pipeline {
namespace {

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

// The lanes with rows of this rank; where ranks divide rows, all that its slice of a batch touches.
RankSlice LanesWithRows(const ExecutorParts& parts) {
  const uint64_t lanes = parts.plan.lanes;
  RankSlice own = SliceOfRank(lanes, parts.rank, parts.world);
  const auto ranks = static_cast<uint64_t>(parts.world);
  if (ranks <= lanes) return own;
  own.num_rows =
      (lanes * static_cast<uint64_t>(parts.rank + 1) + ranks - 1) / ranks - own.first_row;
  return own;
}

}  // namespace

Scanner::Scanner(const ExecutorParts& parts, const RunProcessor& processor, RecordKeeper& keeper,
                 std::shared_ptr<MemoryBudget> budget)
    : parts_(parts),
      processor_(processor),
      examiner_(parts.plan),
      own_lanes_(LanesWithRows(parts)),
      budget_(std::move(budget)),
      keeper_(keeper) {}

Scanner::Findings Scanner::Examine(const ScanRun& run, RunScratch& scratch) const {
  Findings findings;
  Examined& found = findings.found;
  if (run.known) {
    TakeKnown(run, found);
    return findings;
  }
  auto* const payloads = MayKeep(run) ? &findings.payloads : nullptr;
  if (!Caught([&] { ExamineAll(run, scratch, found, payloads); }).ok()) {
    found = ExamineEach(run, scratch);
    findings.payloads.clear();
  }
  found.num_kept = CountKept(found, parts_.plan.cut->num_filters);
  return findings;
}

// The lengths are kept, and no row is dropped or split.
void Scanner::TakeKnown(const ScanRun& work, Examined& found) const {
  found.rows.reserve(work.ids.size());
  found.extents.reserve(work.ids.size() * parts_.lengths->width());
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    const SampleId& id = work.ids[static_cast<size_t>(row)];
    found.rows.push_back({.origin = {id, work.position_of(row)}});
    parts_.lengths->AppendTo(id.record, found.extents);
  }
  found.num_kept = found.rows.size();
}

// `payloads`, unless it is null, becomes the records, in the read buffer.
void Scanner::ExamineAll(const ScanRun& work, RunScratch& scratch, Examined& found,
                         std::vector<std::string_view>* payloads) const {
  scratch.arena.Reset();
  Run run(scratch.arena, parts_.plan.seed, work.position, work.ids.data(), work.num_rows());
  processor_.Load(work.records, run);
  if (payloads != nullptr) *payloads = PayloadsOf(run);
  examiner_.Examine(run, work.positions, &found);
}

// An op threw: each record is looked at by itself, and only those that throw alone are bad.
Examined Scanner::ExamineEach(const ScanRun& work, RunScratch& scratch) const {
  Examined found;
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    const ScanRun single = SingleRow(work, row);
    const size_t rows = found.rows.size();
    const size_t extents = found.extents.size();
    const absl::Status thrown = Caught([&] { ExamineAll(single, scratch, found, nullptr); });
    if (thrown.ok()) continue;
    found.rows.resize(rows);
    found.extents.resize(extents + examiner_.extents_per_row());
    found.rows.push_back({.origin = {work.ids[static_cast<size_t>(row)], work.position_of(row)},
                          .passed_filters = parts_.plan.cut->num_filters,
                          .error = static_cast<int32_t>(found.errors.size())});
    found.errors.push_back(thrown);
  }
  return found;
}

// True if pass 2 may want the records of `run`, and there is room for them until then.
bool Scanner::MayKeep(const ScanRun& run) const {
  const ScanBlock& block = *run.block;
  return run.records.bytes() > 0 && parts_.zip == nullptr && !block.reopens &&
         block.found.lane - own_lanes_.first_row < static_cast<uint64_t>(own_lanes_.num_rows) &&
         keeper_.HasRoomFor(run.records.bytes()) && budget_->Fits(0);
}

void Scanner::Keep(ScanRun& run, Findings& findings) const {
  if (parts_.growing != nullptr) TellUses(*parts_.growing, run, findings.found);
  if (findings.found.num_kept == 0 || findings.payloads.empty()) return;
  const auto view_bytes = static_cast<int64_t>(findings.payloads.size() * sizeof(std::string_view));
  budget_->Reserve(view_bytes);
  auto records = std::make_shared<KeptRecords>();
  records->first = run.position;
  records->payloads = std::move(findings.payloads);
  records->buffer = std::move(run.records.buffer);
  records->budget = budget_;
  records->reserved_bytes = std::exchange(run.records.reserved_bytes, 0) + view_bytes;
  keeper_.Keep(run.block->found.lane, std::move(records));
}

}  // namespace millrace::pipeline
