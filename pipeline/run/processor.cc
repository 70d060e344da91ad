#include "pipeline/run/processor.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/batch/damage.h"
#include "pipeline/batch/row_store.h"
#include "pipeline/stages/apply_caught.h"
#include "readers/parse_fields.h"

namespace millrace::pipeline {
namespace {

constexpr std::string_view kValueColumn = "value";  // the column of a range
constexpr std::string_view kLabelColumn = "label";  // the column of records with a label

// A loop whose bounds of a copy are known is several times faster than calls of memcpy.
void CopyWords(const std::byte* from, int64_t stride, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; ++i, from += stride, to += sizeof(uint64_t)) {
    std::memcpy(to, from, sizeof(uint64_t));
  }
}

// Copies rows of one shape, wherever they lie; false when one is missing.
bool CopyPlaces(const Column& column, size_t row_bytes, std::byte* to) {
  const std::span places(column.places(), static_cast<size_t>(column.num_rows()));
  if (std::ranges::find(places, nullptr) != places.end()) return false;
  for (const void* const from : places) {
    if (from != to) std::memcpy(to, from, row_bytes);
    to += row_bytes;
  }
  return true;
}

// The tensor of a field of the schema; row splits are tensors too.
size_t TensorOf(const BatchLayout& layout, size_t field, const std::string& name) {
  if (layout.stores.empty()) return field;
  return static_cast<size_t>(std::ranges::find(layout.names, name) - layout.names.begin());
}

}  // namespace

RunProcessor::RunProcessor(const PhysicalPlan& plan, const readers::RecordSource& source)
    : plan_(plan),
      source_(source),
      bound_fields_(plan.ops.size()),
      reads_numbers_(!plan.sources.empty() && plan.sources[0].kind == SourceSpec::Kind::kRange) {
  const std::span<const Field> fields = plan.batch_schema.fields();
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    if (const auto* window = dynamic_cast<const WindowOp*>(plan.ops[i].op.get())) {
      window_ = window;
      first_op_ = i + 1;
      preferred_rows_ = (preferred_rows_ + window->size() - 1) / window->size();
    }
    preferred_rows_ = std::max(preferred_rows_, plan.ops[i].op->preferred_rows());
    for (const std::string& name : plan.ops[i].binds) {
      const auto it = std::ranges::find(fields, name, &Field::name);
      if (it != fields.end()) bound_fields_[i].push_back(static_cast<size_t>(it - fields.begin()));
    }
  }
}

RunScratch RunProcessor::MakeScratch() const {
  RunScratch scratch;
  for (const std::vector<size_t>& fields : bound_fields_) {
    std::vector<FieldSlots>& slots = scratch.slots.emplace_back();
    for (const size_t i : fields) {
      const Field& field = plan_.batch_schema.fields()[i];
      slots.push_back({field.name, field.dtype, field.shape, nullptr});
    }
  }
  return scratch;
}

void RunProcessor::PlaceSlots(const RowsRun& work, RunScratch& scratch) const {
  const BatchData& data = *work.batch->data;
  const BatchLayout& layout = *data.layout;
  for (size_t op = 0; op < bound_fields_.size(); ++op) {
    for (size_t i = 0; i < bound_fields_[op].size(); ++i) {
      FieldSlots& slots = scratch.slots[op][i];
      const size_t tensor = TensorOf(layout, bound_fields_[op][i], slots.name);
      slots.first_row =
          data.tensor(tensor) + static_cast<size_t>(work.first_row) * layout.row_bytes[tensor];
      if (layout.stores.empty()) continue;
      slots.shape = layout.fields[tensor].shape;
      // No op writes bytes of rank 0: ragged rows have no places of equal size.
      const bool places = layout.store(tensor) != RowStore::kRagged;
      slots.dtype = places ? layout.fields[tensor].dtype : DType::kBytes;
      if (!places) slots.shape = {};
    }
  }
}

void RunProcessor::Load(const RunRecords& records, Run& run) const {
  if (plan_.zip.has_value()) return LoadZip(records, run);
  if (source_.has_labels()) LoadLabels(run);
  if (!reads_numbers_) return Unframe(records, 0, kRecordColumn, run);
  if (plan_.sources.size() > 1) return LoadJoinedNumbers(records, 0, kValueColumn, run);
  LoadNumbers(run);
}

void RunProcessor::LoadZip(const RunRecords& records, Run& run) const {
  for (int64_t column = 0; column < records.columns; ++column) {
    const ZipPlan::Input& input = plan_.zip->inputs[static_cast<size_t>(column)];
    if (input.numbers) {
      LoadJoinedNumbers(records, column, input.field, run);
    } else {
      Unframe(records, column, input.field, run);
    }
  }
}

void RunProcessor::LoadKept(const KeptRows& kept, Run& run) const {
  if (source_.has_labels()) LoadLabels(run);
  Column& column = run.Add(kRecordColumn, DType::kBytes);
  int64_t row = 0;
  for (const std::string_view payload : kept.payloads) {
    column.Set(row++, payload.data(), {static_cast<int64_t>(payload.size())});
  }
  LoadCells(
      kRecordColumn, [&](int64_t r) { return source_.Locate(run.id(r).record).shard; }, run);
}

template <typename ShardOf>
void RunProcessor::LoadCells(std::string_view name, const ShardOf& shard_of, Run& run) const {
  if (!source_.has_cell_orders()) return;
  Column& column = run.Add(readers::CellsColumn(name), DType::kI64);
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    const std::span<const int64_t> cells = source_.CellsOf(shard_of(row));
    if (cells.empty()) continue;
    column.Set(row, cells.data(), {static_cast<int64_t>(cells.size())});
  }
}

void RunProcessor::LoadLabels(Run& run) const {
  const int64_t rows = run.num_rows();
  auto* const labels =
      reinterpret_cast<int64_t*>(run.arena().Allocate(sizeof(int64_t) * static_cast<size_t>(rows)));
  for (int64_t row = 0; row < rows; ++row) labels[row] = source_.Label(run.id(row).record);
  run.Add(kLabelColumn, DType::kI64).SetAll(labels, sizeof(int64_t), Shape());
}

void RunProcessor::LoadNumbers(Run& run) const {
  run.Add(kValueColumn, DType::kI64).SetAll(&run.id(0).record, sizeof(SampleId), Shape());
}

void RunProcessor::LoadJoinedNumbers(const RunRecords& records, int64_t from, std::string_view name,
                                     Run& run) const {
  const std::span<const readers::RecordRef> refs = records.column_refs(from);
  const auto rows = static_cast<size_t>(records.rows);
  const size_t bytes = sizeof(int64_t) * rows;
  auto* const values = reinterpret_cast<int64_t*>(run.arena().Allocate(bytes));
  for (size_t row = 0; row < rows; ++row) {
    values[row] = static_cast<int64_t>(refs[row].ordinal);
  }
  run.Add(name, DType::kI64).SetAll(values, sizeof(int64_t), Shape());
}

void RunProcessor::UnframeRows(const RunRecords& records, int64_t from, int64_t begin, int64_t end,
                               Column& column, Run& run) const {
  const std::span<const readers::RecordRef> refs = records.column_refs(from);
  const std::span<const size_t> starts = records.column_starts(from);
  const auto count = static_cast<size_t>(end - begin);
  auto* const memory =
      reinterpret_cast<std::string_view*>(run.arena().Allocate(count * sizeof(std::string_view)));
  std::uninitialized_value_construct_n(memory, count);
  const std::span<std::string_view> payloads(memory, count);
  for (int64_t row = begin; row < end;) {
    const auto first = static_cast<size_t>(row);
    const auto rest = static_cast<size_t>(end - row);
    const size_t good = source_.UnframeAll(refs.subspan(first, rest), records.buffer.get(),
                                           starts.subspan(first), payloads);
    for (const std::string_view payload : payloads.first(good)) {
      column.Set(row++, payload.data(), {static_cast<int64_t>(payload.size())});
    }
    if (row == end) return;
    const size_t bad = first + good;
    const size_t number = static_cast<size_t>(from * records.rows) + bad;
    const absl::StatusOr<std::string_view> payload =
        source_.Unframe(refs[bad], records.frame(number, source_.FramedBytes(refs[bad])));
    run.Fail(row++, payload.ok() ? absl::InternalError("a frame both good and damaged")
                                 : payload.status());
  }
}

void RunProcessor::Unframe(const RunRecords& records, int64_t from, std::string_view name,
                           Run& run) const {
  Column& column = run.Add(name, DType::kBytes);
  const int64_t first = from * records.rows;  // the first of the column's records
  int64_t unframed = 0;                       // rows before this one are done
  for (size_t i = 0; i < records.spans.size(); ++i) {
    const int64_t begin = records.spans[i].begin - first;
    if (records.read_status[i].ok() || begin < 0 || begin >= records.rows) continue;
    UnframeRows(records, from, unframed, begin, column, run);
    unframed = records.spans[i].end - first;
    for (int64_t row = begin; row < unframed; ++row) {
      run.Fail(row,
               At(records.read_status[i], records.column_refs(from)[static_cast<size_t>(row)]));
    }
  }
  UnframeRows(records, from, unframed, records.rows, column, run);
  const std::span<const readers::RecordRef> refs = records.column_refs(from);
  LoadCells(
      name, [&](int64_t row) { return refs[static_cast<size_t>(row)].shard; }, run);
}

bool RunProcessor::StoreAtOnce(const RowsRun& work, size_t field, const Column& column) const {
  const BatchLayout& layout = *work.batch->data->layout;
  const Field& expected = layout.fields[field];
  const bool known = column.is_dense() || column.places() != nullptr;
  if (!known || column.dtype() != expected.dtype || column.row_shape() != expected.shape) {
    return false;
  }
  const size_t row_bytes = layout.row_bytes[field];
  if (row_bytes == 0) return true;
  if (column.first() == nullptr) return false;
  std::byte* slot =
      work.batch->data->tensor(field) + static_cast<size_t>(work.first_row) * row_bytes;
  if (!column.is_dense()) return CopyPlaces(column, row_bytes, slot);
  const auto rows = static_cast<size_t>(column.num_rows());
  const auto stride = static_cast<size_t>(column.stride_bytes());
  if (stride == row_bytes || rows == 1) {
    if (column.first() != slot) std::memcpy(slot, column.first(), rows * row_bytes);
  } else if (row_bytes == sizeof(uint64_t)) {
    CopyWords(column.first(), column.stride_bytes(), rows, slot);
  } else {
    for (int64_t row = 0; row < column.num_rows(); ++row, slot += row_bytes) {
      std::memcpy(slot, column.first() + row * column.stride_bytes(), row_bytes);
    }
  }
  return true;
}

void RunProcessor::StoreField(const RowsRun& work, size_t field, Run& run) const {
  const BatchLayout& layout = *work.batch->data->layout;
  const Column* column = run.Find(layout.fields[field].name);
  const bool dense = layout.store(field) == RowStore::kDense;
  if (dense && column != nullptr && run.all_ok() && StoreAtOnce(work, field, *column)) return;
  const bool needs_data = dense && layout.row_bytes[field] != 0;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) continue;
    if (column == nullptr || (needs_data && column->at(row).data == nullptr)) {
      run.Fail(row, absl::InternalError(
                        absl::StrCat("no stage stored field \"", layout.fields[field].name, "\"")));
      continue;
    }
    const absl::Status status =
        StoreRow(*work.batch->data, field, work.first_row + row, column->at(row));
    if (!status.ok()) run.Fail(row, status);
  }
}

void RunProcessor::Store(const RowsRun& work, Run& run) const {
  const BatchLayout& layout = *work.batch->data->layout;
  for (size_t field = 0; field < layout.fields.size(); ++field) {
    if (layout.store(field) != RowStore::kSplits) StoreField(work, field, run);
  }
}

int64_t RunProcessor::StoredBytes(const RowsRun& work) const {
  const std::vector<size_t>& row_bytes = work.batch->data->layout->row_bytes;
  return work.num_rows() * static_cast<int64_t>(std::reduce(row_bytes.begin(), row_bytes.end()));
}

absl::Status RunProcessor::At(const absl::Status& status, const readers::RecordRef& ref) const {
  RecordError error = GetRecordError(status).value_or(RecordError());
  const bool located = !error.file.empty();
  if (!located) error.file = source_.files()[ref.shard];
  if (error.offset < 0) error.offset = static_cast<int64_t>(ref.offset);
  if (error.ordinal < 0) error.ordinal = static_cast<int64_t>(ref.ordinal);
  absl::Status described = status;
  if (!located) {
    const std::string where =
        absl::StrCat(error.file, ": record ", error.ordinal, " at offset ", error.offset);
    described = Annotate(described, where);
  }
  SetRecordError(described, error);
  return described;
}

absl::Status RunProcessor::Locate(const absl::Status& status, const readers::RecordRef& ref,
                                  uint64_t position) const {
  absl::Status described = At(status, ref);
  RecordError error = *GetRecordError(described);
  error.position = static_cast<int64_t>(position);
  SetRecordError(described, error);
  return described;
}

absl::Status RunProcessor::Describe(const RowsRun& work, int64_t row, const absl::Status& status,
                                    std::string_view stage) const {
  const bool located = work.kept.empty() && !work.records.refs.empty();
  const readers::RecordRef ref =
      window_ != nullptr ? RefOfElement(work.records, work.records.elements_of(row).front())
      : located          ? work.records.refs[row]
                         : source_.Locate(work.ids()[row].record);
  return Annotate(Locate(status, ref, work.position + static_cast<uint64_t>(row)),
                  ToStd(absl::StrCat("stage \"", ToAbsl(stage), "\"")));
}

bool RunProcessor::Tolerates(const absl::Status& error) const {
  return plan_.damage.policy != DamageSpec::Policy::kFail && IsDamage(error);
}

bool RunProcessor::LoadRows(const RowsRun& work, RunScratch& scratch, Run& run,
                            FailedRows& failed) const {
  if (window_ != nullptr) return LoadWindows(work, scratch, run, failed);
  if (work.kept.empty()) {
    Load(work.records, run);
  } else {
    LoadKept(work.kept, run);
  }
  failed.Look("source");
  scratch.sample.End(0, run);
  return true;
}

// nullopt: an op threw, and the run has more than one row, so which one it was is not known.
std::optional<std::vector<BadRow>> RunProcessor::TryProcess(const RowsRun& work,
                                                            RunScratch& scratch) const {
  scratch.arena.Reset();
  PlaceSlots(work, scratch);
  Run run(scratch.arena, plan_.seed, work.position, work.ids(), work.num_rows());
  FailedRows failed(run);
  RunSample& sample = scratch.sample;
  sample.Begin(run);
  if (!LoadRows(work, scratch, run, failed)) return std::nullopt;
  for (size_t i = first_op_; i < plan_.ops.size(); ++i) {
    run.Bind(scratch.slots[i]);
    if (!ApplyCaught(*plan_.ops[i].op, run)) return std::nullopt;
    failed.Look(plan_.ops[i].stage);
    sample.End(i + 1, run);
  }
  Store(work, run);
  failed.Look("batch");
  sample.End(num_phases() - 1, run);
  sample.Finish(StoredBytes(work));
  std::vector<BadRow> bad_rows;
  for (const auto& [row, stage] : failed.Take()) {
    const absl::Status& error = run.status(row);
    bad_rows.push_back({work.first_row + row, Tolerates(error), Describe(work, row, error, stage)});
  }
  return bad_rows;
}

std::vector<BadRow> RunProcessor::Process(const RowsRun& work, RunScratch& scratch) const {
  if (auto bad_rows = TryProcess(work, scratch)) return *std::move(bad_rows);
  std::vector<BadRow> bad_rows;
  for (int64_t row = 0; row < work.num_rows(); ++row) {
    auto single = TryProcess(SingleRow(work, row), scratch);
    std::ranges::move(*single, std::back_inserter(bad_rows));
  }
  return bad_rows;
}

}  // namespace millrace::pipeline
