#include "pipeline/run_op.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/status.h"
#include "pipeline/stages/op_spec.h"

namespace millrace::pipeline {
namespace {

// The bytes of a value of a field of one shape.
size_t RowBytes(const Field& field) {
  return static_cast<size_t>(field.shape.num_elements()) * SizeOf(field.dtype);
}

// Takes out the columns that are removed, and those that are both read and written.
std::vector<Column> TakeOld(const SampleOpSpec& spec, Run& run) {
  std::vector<Column> old;
  for (const std::string& name : spec.removes) old.push_back(run.Take(name));
  for (const Field& field : spec.writes) {
    if (run.Find(field.name) != nullptr) old.push_back(run.Take(field.name));
  }
  return old;
}

const Column* FindRead(const Run& run, const std::vector<Column>& old, std::string_view name) {
  for (const Column& column : old) {
    if (column.name() == name) return &column;
  }
  return &run.Get(name);
}

Column* FindWritten(Run& run, std::string_view name) {
  for (Column& column : run.columns()) {
    if (column.name() == name) return &column;
  }
  return nullptr;
}

// Memory for all rows of a field of one shape, zeroed; null for another field.
std::byte* AllocateRows(Run& run, Column& column, const Field& field) {
  if (!field.shape.IsKnown()) return nullptr;
  std::byte* const first = run.AllocateAll(column, field.shape);
  const size_t bytes = RowBytes(field);
  std::memset(first, 0, bytes * static_cast<size_t>(run.num_rows()));
  column.SetAll(first, static_cast<int64_t>(bytes), field.shape);
  return first;
}

void CheckWritten(Run& run, const Column& column) {
  if (column.is_dense()) return;  // memory of all rows
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row) || column.at(row).data != nullptr) continue;
    run.Fail(row, absl::InternalError(
                      absl::StrCat("the op did not write field \"", column.name(), "\"")));
  }
}

}  // namespace

std::byte* RunView::MemoryOf(size_t i) const {
  std::byte* const first = rows_.memory[i];
  if (first == nullptr) return nullptr;
  return first + static_cast<size_t>(first_row_) * RowBytes(rows_.fields[i]);
}

size_t RunView::BytesOf(size_t i) const {
  if (rows_.memory[i] == nullptr) return 0;
  return static_cast<size_t>(num_rows_) * RowBytes(rows_.fields[i]);
}

absl::StatusOr<TensorView> RunView::Allocate(size_t i, int64_t row, const Shape& shape) {
  const Field& field = rows_.fields[i];
  if (field.shape.IsKnown() || !field.shape.Admits(shape) || ValueBytes(field.dtype, shape) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", field.name, "\" was declared as ",
                                                   field.shape.ToString(),
                                                   ", which has no rows of ", shape.ToString()));
  }
  void* const memory = rows_.run.Allocate(*rows_.writes[i], first_row_ + row, shape);
  return TensorView{memory, field.dtype, shape};
}

absl::Status RunView::SetBytes(size_t i, int64_t row, std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  MILLRACE_ASSIGN_OR_RETURN(const TensorView view, Allocate(i, row, {size}));
  if (size > 0) std::memcpy(view.data, bytes.data(), bytes.size());
  return absl::OkStatus();
}

std::vector<uint32_t> RunView::RandomWords(size_t words_per_row) const {
  std::vector<uint32_t> words;
  words.reserve(static_cast<size_t>(num_rows_) * words_per_row);
  for (int64_t row = 0; row < num_rows_; ++row) {
    RandomStream stream = Random(row);
    for (size_t word = 0; word < words_per_row; ++word) words.push_back(stream.NextU32());
  }
  return words;
}

class RunOp final : public Op {
 public:
  RunOp(SampleOpSpec spec, RunFunction function)
      : spec_(std::move(spec)), function_(std::move(function)), key_(HashName(spec_.stage)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override { return ResolveSpec(spec_, input); }

  void Apply(Run& run) const override {
    const std::vector<Column> old = TakeOld(spec_, run);
    for (const Field& field : spec_.writes) run.Add(field.name, field.dtype);
    RunView::Rows rows = {run, spec_.writes, key_, {}, {}, {}};
    for (const std::string& name : spec_.reads) rows.reads.push_back(FindRead(run, old, name));
    for (const Field& field : spec_.writes) {
      rows.writes.push_back(FindWritten(run, field.name));
      rows.memory.push_back(AllocateRows(run, *rows.writes.back(), field));
    }
    Call(rows, 0, run.num_rows());
    for (const Column* column : rows.writes) CheckWritten(run, *column);
  }

  int64_t preferred_rows() const override { return spec_.preferred_rows; }

 private:
  void Call(RunView::Rows& rows, int64_t first_row, int64_t num_rows) const {
    RunView view(rows, first_row, num_rows);
    absl::Status status = Caught([&] { return function_(view); });
    if (status.ok()) return;
    if (num_rows == 1) return rows.run.Fail(first_row, std::move(status));
    for (int64_t row = first_row; row < first_row + num_rows; ++row) {
      if (!rows.run.ok(row)) continue;
      const RunView single(rows, row, 1);
      for (size_t i = 0; i < rows.memory.size(); ++i) {
        const std::span<std::byte> memory = single.writes(i);
        if (!memory.empty()) std::memset(memory.data(), 0, memory.size());
      }
      Call(rows, row, 1);
    }
  }

  const SampleOpSpec spec_;
  const RunFunction function_;
  const uint64_t key_;
};

absl::StatusOr<std::unique_ptr<Op>> MakeRunOp(SampleOpSpec spec, RunFunction function) {
  MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
  if (!function) return absl::InvalidArgumentError("the op has no function");
  return std::make_unique<RunOp>(std::move(spec), std::move(function));
}

}  // namespace millrace::pipeline
