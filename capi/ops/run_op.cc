#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/op.h"
#include "base/philox.h"
#include "base/record_error.h"
#include "base/run.h"
#include "base/status.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/call/user.h"
#include "capi/ops/ops.h"
#include "pipeline/sample_op.h"

// An op on runs. It sees the fields that it reads as columns, and fills those that it writes, whose
// memory is the batch's own where it can be. If it fails for a run of several rows it is called for
// each row alone, so that the error is that of the row, however rows were grouped.

// The run that an op works on, or one row of it.
struct mr_run {
  millrace::Run& run;
  const std::vector<const millrace::Column*>& reads;
  const std::vector<millrace::Column*>& writes;
  const std::vector<millrace::Field>& fields;  // of `writes`
  int64_t first_row;
  int64_t num_rows;
  uint64_t key;
};

namespace millrace::capi {
namespace {

// A registered op, which the ops of all stages share.
struct RunFunction {
  RunFunction(const mr_run_op& op, User user_in) : apply(op.apply), user(std::move(user_in)) {}
  mr_error* (*const apply)(void* user, const mr_run_view* run);
  const User user;
  pipeline::SampleOpSpec spec;
};

mr_column ShownColumn(const Column& column, int64_t first_row) {
  mr_column shown = {};
  shown.struct_size = sizeof shown;
  shown.name = column.name().c_str();
  shown.dtype = static_cast<int32_t>(column.dtype());
  if (!column.is_dense()) {
    shown.rank = -1;
    return shown;
  }
  shown.rank = column.row_shape().rank();
  for (int i = 0; i < column.row_shape().rank(); ++i) shown.shape[i] = column.row_shape()[i];
  shown.first = column.first() + first_row * column.stride_bytes();
  shown.stride_bytes = column.stride_bytes();
  return shown;
}

class RunOp final : public Op {
 public:
  // `shape` checks and changes schemas as the op on samples with the same fields.
  RunOp(std::shared_ptr<const RunFunction> function, std::unique_ptr<Op> shape,
        const pipeline::OpArgs& args)
      : function_(std::move(function)),
        shape_(std::move(shape)),
        options_(args.options),
        key_(HashName(args.stage)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override { return shape_->Resolve(input); }

  void Apply(Run& run) const override {
    const pipeline::SampleOpSpec& spec = function_->spec;
    const std::vector<Column> old = TakeOld(run);
    for (const Field& field : spec.writes) run.Add(field.name, field.dtype);
    std::vector<const Column*> reads;
    for (const std::string& name : spec.reads) reads.push_back(FindRead(run, old, name));
    std::vector<Column*> writes;
    std::vector<std::byte*> memory;
    for (const Field& field : spec.writes) {
      writes.push_back(FindWritten(run, field.name));
      memory.push_back(AllocateRows(run, *writes.back(), field));
    }
    Call(run, reads, writes, memory, 0, run.num_rows());
    for (const Column* column : writes) CheckWritten(run, *column);
  }

  int64_t preferred_rows() const override { return function_->spec.preferred_rows; }

 private:
  // Takes out the columns that are removed, and those that are both read and written.
  std::vector<Column> TakeOld(Run& run) const {
    const pipeline::SampleOpSpec& spec = function_->spec;
    std::vector<Column> old;
    for (const std::string& name : spec.removes) old.push_back(run.Take(name));
    for (const Field& field : spec.writes) {
      if (run.Find(field.name) != nullptr) old.push_back(run.Take(field.name));
    }
    return old;
  }

  static const Column* FindRead(const Run& run, const std::vector<Column>& old,
                                std::string_view name) {
    for (const Column& column : old) {
      if (column.name() == name) return &column;
    }
    return &run.Get(name);
  }

  static Column* FindWritten(Run& run, std::string_view name) {
    for (Column& column : run.columns()) {
      if (column.name() == name) return &column;
    }
    return nullptr;
  }

  // Memory for all rows of a field of one shape, zeroed; null for another field.
  static std::byte* AllocateRows(Run& run, Column& column, const Field& field) {
    if (!field.shape.IsKnown()) return nullptr;
    std::byte* const first = run.AllocateAll(column, field.shape);
    const size_t bytes = RowBytes(field);
    std::memset(first, 0, bytes * static_cast<size_t>(run.num_rows()));
    column.SetAll(first, static_cast<int64_t>(bytes), field.shape);
    return first;
  }

  static size_t RowBytes(const Field& field) {
    return static_cast<size_t>(field.shape.num_elements()) * SizeOf(field.dtype);
  }

  void Call(Run& run, const std::vector<const Column*>& reads, const std::vector<Column*>& writes,
            const std::vector<std::byte*>& memory, int64_t first_row, int64_t num_rows) const {
    mr_run handle = {run, reads, writes, function_->spec.writes, first_row, num_rows, key_};
    absl::Status status = CallOnce(handle, memory);
    if (status.ok()) return;
    if (num_rows == 1) return run.Fail(first_row, std::move(status));
    for (int64_t row = first_row; row < first_row + num_rows; ++row) {
      if (!run.ok(row)) continue;
      for (size_t i = 0; i < memory.size(); ++i) {
        if (memory[i] == nullptr) continue;
        const size_t bytes = RowBytes(handle.fields[i]);
        std::memset(memory[i] + static_cast<size_t>(row) * bytes, 0, bytes);
      }
      Call(run, reads, writes, memory, row, 1);
    }
  }

  absl::Status CallOnce(mr_run& handle, const std::vector<std::byte*>& memory) const {
    std::vector<mr_column> columns;
    for (const Column* column : handle.reads) {
      columns.push_back(ShownColumn(*column, handle.first_row));
    }
    std::vector<void*> rows;
    for (size_t i = 0; i < memory.size(); ++i) {
      std::byte* const first = memory[i];
      const auto offset = static_cast<size_t>(handle.first_row);
      rows.push_back(first == nullptr ? nullptr : first + offset * RowBytes(handle.fields[i]));
    }
    std::vector<uint8_t> ok;
    for (int64_t row = 0; row < handle.num_rows; ++row) {
      ok.push_back(handle.run.ok(handle.first_row + row) ? 1 : 0);
    }
    mr_run_view view = {};
    view.struct_size = sizeof view;
    view.rows = handle.num_rows;
    view.ok = ok.data();
    view.ids = ShownIds(&handle.run.id(handle.first_row));
    view.reads = columns.data();
    view.num_reads = columns.size();
    view.writes = rows.data();
    view.num_writes = rows.size();
    view.options = options_.c_str();
    view.run = &handle;
    return TakeError(function_->apply(function_->user.get(), &view));
  }

  static void CheckWritten(Run& run, const Column& column) {
    if (column.is_dense()) return;  // memory of all rows
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row) || column.at(row).data != nullptr) continue;
      run.Fail(row, absl::InternalError(
                        absl::StrCat("the op did not write field \"", column.name(), "\"")));
    }
  }

  const std::shared_ptr<const RunFunction> function_;
  const std::unique_ptr<Op> shape_;
  const std::string options_;
  const uint64_t key_;
};

absl::Status AddNames(const char* what, const char* const* names, size_t count,
                      std::vector<std::string>& added) {
  for (size_t i = 0; i < count; ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckGiven("mr_run_op", {{what, names != nullptr && names[i] != nullptr}}));
    added.emplace_back(names[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<Field> FieldOf(const mr_field* given) {
  MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_run_op", {{"a field of writes", given != nullptr}}));
  mr_field taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_field", taken));
  MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_field", {{"name", taken.name != nullptr}}));
  const bool is_dtype = taken.dtype >= MR_BYTES && taken.dtype <= MR_FLOAT64;
  if (!is_dtype || taken.rank < 0 || taken.rank > Shape::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("field ", taken.name, " has dtype ", taken.dtype,
                                                   " and rank ", taken.rank,
                                                   ", of which one is none"));
  }
  return Field{.name = taken.name,
               .dtype = static_cast<DType>(taken.dtype),
               .shape = Shape(std::span(taken.shape, static_cast<size_t>(taken.rank)))};
}

absl::StatusOr<pipeline::SampleOpSpec> SpecOf(const mr_run_op& op) {
  pipeline::SampleOpSpec spec;
  MILLRACE_RETURN_IF_ERROR(AddNames("a name of reads", op.reads, op.num_reads, spec.reads));
  MILLRACE_RETURN_IF_ERROR(AddNames("a name of removes", op.removes, op.num_removes, spec.removes));
  for (size_t i = 0; i < op.num_writes; ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_run_op", {{"writes", op.writes != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(Field field, FieldOf(op.writes[i]));
    spec.writes.push_back(std::move(field));
  }
  if (op.preferred_rows != 0) spec.preferred_rows = op.preferred_rows;
  return spec;
}

// An op on samples that is never applied.
absl::StatusOr<std::unique_ptr<Op>> ShapeOf(const pipeline::SampleOpSpec& spec) {
  return pipeline::MakeSampleOp(
      spec, [](const pipeline::Sample&, pipeline::SampleOutput&) { return absl::OkStatus(); });
}

absl::Status CheckRow(const char* call, const mr_run& run, size_t field, size_t num_fields,
                      int64_t row) {
  if (field < num_fields && row >= 0 && row < run.num_rows) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(call, ": there is no field ", field, " or row ", row));
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_ops_register_run(mr_ops* ops, const char* name, uint32_t version,
                              const mr_run_op* op) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_ops_register_run",
        {{"ops", ops != nullptr}, {"name", name != nullptr}, {"op", op != nullptr}}));
    mr_run_op taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(op, "mr_run_op", taken));
    capi::User user(taken.user, taken.destroy);
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_run_op", {{"apply", taken.apply != nullptr}}));
    auto function = std::make_shared<capi::RunFunction>(taken, std::move(user));
    MILLRACE_ASSIGN_OR_RETURN(function->spec, capi::SpecOf(taken));
    MILLRACE_RETURN_IF_ERROR(capi::ShapeOf(function->spec).status());
    return ops->table->Register(
        name, version,
        [function](const pipeline::OpArgs& args) -> absl::StatusOr<std::unique_ptr<millrace::Op>> {
          MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<millrace::Op> shape,
                                    capi::ShapeOf(function->spec));
          return std::make_unique<capi::RunOp>(function, std::move(shape), args);
        });
  });
}

mr_error* mr_run_value(const mr_run* run, size_t field, int64_t row, mr_tensor* value) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_run_value", {{"run", run != nullptr}, {"value", value != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(capi::CheckRow("mr_run_value", *run, field, run->reads.size(), row));
    if (!run->run.ok(run->first_row + row)) {
      return absl::FailedPreconditionError(absl::StrCat("mr_run_value: row ", row, " has failed"));
    }
    const millrace::Column& column = *run->reads[field];
    const mr_tensor filled =
        capi::ShownTensor(column.name().c_str(), column.at(run->first_row + row));
    return capi::Give(filled, value, "mr_tensor");
  });
}

mr_error* mr_run_allocate(mr_run* run, size_t field, int64_t row, const int64_t* shape,
                          int32_t rank, void** data) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_run_allocate",
        {{"run", run != nullptr}, {"shape", shape != nullptr}, {"data", data != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckRow("mr_run_allocate", *run, field, run->fields.size(), row));
    const millrace::Field& declared = run->fields[field];
    if (rank < 0 || rank > millrace::Shape::kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("mr_run_allocate: rank is ", rank));
    }
    const millrace::Shape of_row(std::span(shape, static_cast<size_t>(rank)));
    if (declared.shape.IsKnown() || !declared.shape.Admits(of_row) ||
        pipeline::ValueBytes(declared.dtype, of_row) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("mr_run_allocate: field \"", declared.name, "\" was declared as ",
                       declared.shape.ToString(), ", which has no rows of ", of_row.ToString()));
    }
    *data = run->run.Allocate(*run->writes[field], run->first_row + row, of_row);
    return absl::OkStatus();
  });
}

void mr_run_fail(mr_run* run, int64_t row, mr_error* error) {
  // Without a text, which would need memory.
  absl::Status status(absl::StatusCode::kResourceExhausted, "");
  mr_error_free(capi::Guard([&]() -> absl::Status {
    absl::Status taken = capi::TakeError(error);
    if (taken.code() == absl::StatusCode::kDataLoss && !millrace::GetRecordError(taken)) {
      millrace::RecordError damage;
      damage.reason = millrace::RecordErrorReason::kValue;
      millrace::SetRecordError(taken, damage);
    }
    status = std::move(taken);
    return absl::OkStatus();
  }));
  mr_error_free(capi::Guard([&]() -> absl::Status {
    if (run != nullptr && row >= 0 && row < run->num_rows && !status.ok()) {
      run->run.Fail(run->first_row + row, std::move(status));
    }
    return absl::OkStatus();
  }));
}

void mr_run_random(const mr_run* run, int64_t row, int64_t num_rows, uint32_t* words,
                   size_t words_per_row) {
  for (int64_t i = row; i < row + num_rows; ++i) {
    millrace::RandomStream stream = run->run.Random(run->first_row + i, run->key);
    for (size_t word = 0; word < words_per_row; ++word) *words++ = stream.NextU32();
  }
}
