#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/apply_caught_internal.h"
#include "pipeline/row_store_internal.h"
#include "pipeline/run_work_internal.h"

namespace millrace::pipeline {
namespace {

constexpr std::string_view kRecordColumn = "record";
constexpr std::string_view kValueColumn = "value";

// Remembers the lowest bad row of a run and the stage that said so.
class FirstBadRow {
 public:
  explicit FirstBadRow(const Run& run) : run_(run), row_(run.num_rows()) {}

  // Called after `stage` has worked on the run.
  void Look(std::string_view stage) {
    if (run_.all_ok()) return;
    for (int64_t row = 0; row < row_; ++row) {
      if (run_.ok(row)) continue;
      row_ = row;
      stage_ = stage;
    }
  }
  int64_t row() const { return row_; }
  std::string_view stage() const { return stage_; }

 private:
  const Run& run_;
  int64_t row_;
  std::string_view stage_;
};

int64_t CountBadRows(const Run& run) {
  int64_t count = 0;
  for (int64_t row = 0; row < run.num_rows(); ++row) count += run.ok(row) ? 0 : 1;
  return count;
}

}  // namespace

RunProcessor::RunProcessor(const PhysicalPlan& plan, const BatchLayout& layout,
                           const readers::RecordSource& source)
    : plan_(plan),
      layout_(layout),
      source_(source),
      bound_fields_(plan.ops.size()),
      values_(!plan.sources.empty() && plan.sources[0].kind == SourceSpec::Kind::kRange) {
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    preferred_rows_ = std::max(preferred_rows_, plan.ops[i].op->preferred_rows());
    for (const std::string& name : plan.ops[i].binds) {
      const auto it = std::ranges::find(layout.names, name);
      if (it == layout.names.end()) continue;
      bound_fields_[i].push_back(static_cast<size_t>(it - layout.names.begin()));
    }
  }
}

RunScratch RunProcessor::MakeScratch() const {
  RunScratch scratch;
  for (const std::vector<size_t>& fields : bound_fields_) {
    std::vector<FieldSlots>& slots = scratch.slots.emplace_back();
    for (const size_t i : fields) {
      const Field& field = layout_.fields[i];
      slots.push_back({field.name, field.dtype, field.shape, nullptr});
    }
  }
  return scratch;
}

void RunProcessor::PlaceSlots(const RunWork& work, RunScratch& scratch) const {
  const BatchData& data = *work.batch->data;
  const BatchLayout& layout = *data.layout;
  for (size_t op = 0; op < bound_fields_.size(); ++op) {
    for (size_t i = 0; i < bound_fields_[op].size(); ++i) {
      const size_t field = bound_fields_[op][i];
      FieldSlots& slots = scratch.slots[op][i];
      slots.first_row =
          data.tensor(field) + static_cast<size_t>(work.first_row) * layout.row_bytes[field];
      if (layout.stores.empty()) continue;
      slots.shape = layout.fields[field].shape;
      // No op writes bytes of rank 0: ragged rows have no places of equal size.
      const bool places = layout.store(field) != RowStore::kRagged;
      slots.dtype = places ? layout.fields[field].dtype : DType::kBytes;
      if (!places) slots.shape = {};
    }
  }
}

void RunProcessor::Load(const RunWork& work, Run& run) const {
  if (!values_) return Unframe(work, run);
  Column& column = run.Add(kValueColumn, DType::kI64);
  const size_t bytes = sizeof(int64_t) * static_cast<size_t>(work.num_rows());
  auto* const values = reinterpret_cast<int64_t*>(run.arena().Allocate(bytes));
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    values[row] = static_cast<int64_t>(work.refs[row].ordinal);
    column.Set(row, values + row, {});
  }
}

void RunProcessor::Unframe(const RunWork& work, Run& run) const {
  Column& column = run.Add(kRecordColumn, DType::kBytes);
  for (size_t i = 0; i < work.spans.size(); ++i) {
    for (int64_t row = work.spans[i].begin; row < work.spans[i].end; ++row) {
      if (!work.read_status[i].ok()) {
        run.Fail(row, work.read_status[i]);
        continue;
      }
      absl::StatusOr<std::string_view> payload = source_.Unframe(
          work.refs[row],
          {work.buffer.get() + work.starts[row], work.starts[row + 1] - work.starts[row]});
      if (payload.ok()) {
        column.Set(row, payload->data(), {static_cast<int64_t>(payload->size())});
      } else {
        run.Fail(row, payload.status());
      }
    }
  }
}

void RunProcessor::StoreField(const RunWork& work, size_t field, Run& run) const {
  const BatchLayout& layout = *work.batch->data->layout;
  const Field& expected = layout.fields[field];
  const Column* column = run.Find(expected.name);
  const size_t row_bytes = layout.row_bytes[field];
  const bool dense = layout.store(field) == RowStore::kDense;
  std::byte* slot =
      work.batch->data->tensor(field) + static_cast<size_t>(work.first_row) * row_bytes;
  for (int64_t row = 0; row < run.num_rows(); ++row, slot += row_bytes) {
    if (!run.ok(row)) continue;
    if (column == nullptr || (column->at(row).data == nullptr && row_bytes != 0 && dense)) {
      run.Fail(row,
               absl::InternalError(absl::StrCat("no stage stored field \"", expected.name, "\"")));
      continue;
    }
    const ConstTensorView value = column->at(row);
    if (!dense) {
      const absl::Status status = StoreRow(*work.batch->data, field, work.first_row + row, value);
      if (!status.ok()) run.Fail(row, status);
      continue;
    }
    if (value.dtype != expected.dtype || value.shape != expected.shape) {
      run.Fail(row, absl::InvalidArgumentError(
                        absl::StrCat("field \"", expected.name, "\" is ", ToAbsl(Name(value.dtype)),
                                     value.shape.ToString(), ", the batch wants ",
                                     ToAbsl(Name(expected.dtype)), expected.shape.ToString())));
      continue;
    }
    if (value.data != slot && row_bytes != 0) std::memcpy(slot, value.data, row_bytes);
  }
}

void RunProcessor::Store(const RunWork& work, Run& run) const {
  const BatchLayout& layout = *work.batch->data->layout;
  for (size_t field = 0; field < layout.fields.size(); ++field) {
    if (layout.store(field) != RowStore::kSplits) StoreField(work, field, run);
  }
}

absl::Status RunProcessor::Locate(const absl::Status& status, const readers::RecordRef& ref,
                                  uint64_t position) const {
  RecordError error = GetRecordError(status).value_or(RecordError());
  const bool located = !error.file.empty();
  if (!located) error.file = source_.files()[ref.shard];
  if (error.offset < 0) error.offset = static_cast<int64_t>(ref.offset);
  if (error.ordinal < 0) error.ordinal = static_cast<int64_t>(ref.ordinal);
  error.position = static_cast<int64_t>(position);
  absl::Status described = status;
  if (!located) {
    const std::string where =
        absl::StrCat(error.file, ": record ", error.ordinal, " at offset ", error.offset);
    described = Annotate(described, where);
  }
  SetRecordError(described, error);
  return described;
}

absl::Status RunProcessor::Describe(const RunWork& work, int64_t row, const absl::Status& status,
                                    std::string_view stage) const {
  return Annotate(Locate(status, work.refs[row], work.position + static_cast<uint64_t>(row)),
                  ToStd(absl::StrCat("stage \"", ToAbsl(stage), "\"")));
}

// nullopt: an op threw, and the run has more than one row, so which one it was is not known.
std::optional<RunOutcome> RunProcessor::TryProcess(const RunWork& work, RunScratch& scratch) const {
  scratch.arena.Reset();
  PlaceSlots(work, scratch);
  const SampleId* ids = work.batch->data->ids() + work.first_row;
  Run run(scratch.arena, plan_.seed, work.position,
          std::vector<SampleId>(ids, ids + work.num_rows()));
  FirstBadRow first_bad(run);
  Load(work, run);
  first_bad.Look("source");
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    run.Bind(scratch.slots[i]);
    if (!ApplyCaught(*plan_.ops[i].op, run)) return std::nullopt;
    first_bad.Look(plan_.ops[i].stage);
  }
  Store(work, run);
  first_bad.Look("batch");
  if (run.all_ok()) return RunOutcome();
  return RunOutcome{
      .num_bad_rows = CountBadRows(run),
      .first_bad_row = first_bad.row(),
      .error = Describe(work, first_bad.row(), run.status(first_bad.row()), first_bad.stage())};
}

RunOutcome RunProcessor::Process(const RunWork& work, RunScratch& scratch) const {
  if (std::optional<RunOutcome> outcome = TryProcess(work, scratch)) return *std::move(outcome);
  RunOutcome outcome;
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    const std::optional<RunOutcome> single = TryProcess(SingleRow(work, row), scratch);
    if (single->num_bad_rows == 0) continue;
    if (outcome.num_bad_rows++ > 0) continue;
    outcome.first_bad_row = row;
    outcome.error = single->error;
  }
  return outcome;
}

}  // namespace millrace::pipeline
