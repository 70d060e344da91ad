#include "pipeline/sample_op.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/stages/op_spec.h"

namespace millrace::pipeline {

SampleOutput::SampleOutput(Run& run, std::span<const Field> fields) : run_(run), fields_(fields) {
  columns_.reserve(fields.size());
  for (const Field& field : fields) {
    columns_.emplace_back(field.name, field.dtype, run.num_rows(), run.arena());
  }
}

absl::StatusOr<TensorView> SampleOutput::Allocate(size_t i, const Shape& shape) {
  const Field& field = fields_[i];
  const int64_t bytes = ValueBytes(field.dtype, shape);
  if (bytes < 0 || !field.shape.Admits(shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", field.name, "\" was declared as ", ToAbsl(Name(field.dtype)),
                     field.shape.ToString(), ", which does not admit ", shape.ToString()));
  }
  void* memory = run_.Allocate(columns_[i], row_, shape);
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return TensorView{memory, field.dtype, shape};
}

absl::Status SampleOutput::SetBytes(size_t i, std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  MILLRACE_ASSIGN_OR_RETURN(const TensorView view, Allocate(i, {size}));
  if (size > 0) std::memcpy(view.data, bytes.data(), bytes.size());
  return absl::OkStatus();
}

class SampleOp final : public Op {
 public:
  SampleOp(SampleOpSpec spec, SampleFunction function)
      : spec_(std::move(spec)), function_(std::move(function)), key_(HashName(spec_.stage)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override { return ResolveSpec(spec_, input); }

  void Apply(Run& run) const override {
    std::vector<const Column*> columns;
    for (const std::string& name : spec_.reads) columns.push_back(&run.Get(name));
    Sample sample(run, columns, key_);
    SampleOutput output(run, spec_.writes);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      sample.row_ = output.row_ = row;
      if (absl::Status status = Call(sample, output); !status.ok()) {
        run.Fail(row, std::move(status));
      }
    }
    // Only now: a field that is read and written is seen as it was.
    for (const std::string& name : spec_.removes) run.Take(name);
    for (Column& column : output.columns_) {
      run.Add(column.name(), column.dtype()) = std::move(column);
    }
  }

  int64_t preferred_rows() const override { return spec_.preferred_rows; }

 private:
  absl::Status Call(const Sample& sample, SampleOutput& output) const {
    MILLRACE_RETURN_IF_ERROR(Caught([&] { return function_(sample, output); }));
    for (const Column& column : output.columns_) {
      if (column.at(output.row_).data != nullptr) continue;
      return absl::InternalError(
          absl::StrCat("the op did not write field \"", column.name(), "\""));
    }
    return absl::OkStatus();
  }

  const SampleOpSpec spec_;
  const SampleFunction function_;
  const uint64_t key_;
};

absl::StatusOr<std::unique_ptr<Op>> MakeSampleOp(SampleOpSpec spec, SampleFunction function) {
  MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
  if (!function) return absl::InvalidArgumentError("the op has no function");
  return std::make_unique<SampleOp>(std::move(spec), std::move(function));
}

}  // namespace millrace::pipeline
