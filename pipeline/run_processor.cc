#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/run_work_internal.h"

namespace millrace::pipeline {
namespace {

constexpr std::string_view kRecordColumn = "record";

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
    : plan_(plan), layout_(layout), source_(source), bound_fields_(plan.ops.size()) {
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
  for (size_t op = 0; op < bound_fields_.size(); ++op) {
    for (size_t i = 0; i < bound_fields_[op].size(); ++i) {
      const size_t field = bound_fields_[op][i];
      scratch.slots[op][i].first_row =
          work.batch->data->tensor(field) +
          static_cast<size_t>(work.first_row) * layout_.row_bytes[field];
    }
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
  const Field& expected = layout_.fields[field];
  const Column* column = run.Find(expected.name);
  const size_t row_bytes = layout_.row_bytes[field];
  std::byte* slot =
      work.batch->data->tensor(field) + static_cast<size_t>(work.first_row) * row_bytes;
  for (int64_t row = 0; row < run.num_rows(); ++row, slot += row_bytes) {
    if (!run.ok(row)) continue;
    if (column == nullptr || (column->at(row).data == nullptr && row_bytes != 0)) {
      run.Fail(row,
               absl::InternalError(absl::StrCat("no stage stored field \"", expected.name, "\"")));
      continue;
    }
    const ConstTensorView value = column->at(row);
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
  for (size_t field = 0; field < layout_.fields.size(); ++field) StoreField(work, field, run);
}

absl::Status RunProcessor::Describe(const RunWork& work, int64_t row, const absl::Status& status,
                                    std::string_view stage) const {
  const readers::RecordRef& ref = work.refs[row];
  RecordError error = GetRecordError(status).value_or(RecordError());
  const bool located = !error.file.empty();
  if (!located) error.file = source_.files()[ref.shard];
  if (error.offset < 0) error.offset = static_cast<int64_t>(ref.offset);
  if (error.ordinal < 0) error.ordinal = static_cast<int64_t>(ref.ordinal);
  error.position = static_cast<int64_t>(work.position) + row;
  absl::Status described = status;
  if (!located) {
    const std::string where =
        absl::StrCat(error.file, ": record ", error.ordinal, " at offset ", error.offset);
    described = Annotate(described, where);
  }
  described = Annotate(described, ToStd(absl::StrCat("stage \"", ToAbsl(stage), "\"")));
  SetRecordError(described, error);
  return described;
}

RunOutcome RunProcessor::Process(const RunWork& work, RunScratch& scratch) const {
  scratch.arena.Reset();
  PlaceSlots(work, scratch);
  const SampleId* ids = work.batch->data->ids() + work.first_row;
  Run run(scratch.arena, plan_.seed, work.position,
          std::vector<SampleId>(ids, ids + work.num_rows()));
  FirstBadRow first_bad(run);
  Unframe(work, run);
  first_bad.Look("source");
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    run.Bind(scratch.slots[i]);
    plan_.ops[i].op->Apply(run);
    first_bad.Look(plan_.ops[i].stage);
  }
  Store(work, run);
  first_bad.Look("batch");
  if (run.all_ok()) return {};
  return {.num_bad_rows = CountBadRows(run),
          .first_bad_row = first_bad.row(),
          .error = Describe(work, first_bad.row(), run.status(first_bad.row()), first_bad.stage())};
}

}  // namespace millrace::pipeline
