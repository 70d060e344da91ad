#include "pipeline/sample_op.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/stages/apply_caught.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kMaxValueBytes = int64_t{1} << 40;

// True if some value has the shape, whatever its unknown extents are.
bool HasValues(DType dtype, const Shape& shape) {
  if (shape.IsKnown()) return ValueBytes(dtype, shape) >= 0;
  return std::ranges::all_of(shape.extents(),
                             [](int64_t extent) { return extent >= Shape::kUnknown; });
}

absl::Status CheckDistinct(const std::vector<std::string>& names, std::string_view what) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the op ", ToAbsl(what), " \"", name, name.empty() ? "\", which is no name" : "\" twice"));
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const SampleOpSpec& spec) {
  std::vector<std::string> written;
  for (const Field& field : spec.writes) written.push_back(field.name);
  MILLRACE_RETURN_IF_ERROR(CheckDistinct(spec.reads, "reads"));
  MILLRACE_RETURN_IF_ERROR(CheckDistinct(written, "writes"));
  written.insert(written.end(), spec.removes.begin(), spec.removes.end());
  MILLRACE_RETURN_IF_ERROR(CheckDistinct(written, "writes or removes"));
  for (const Field& field : spec.writes) {
    if (!HasValues(field.dtype, field.shape)) {
      return absl::InvalidArgumentError(absl::StrCat("no value of field \"", field.name,
                                                     "\" has the shape ", field.shape.ToString()));
    }
    if (field.dtype != DType::kBytes || field.shape == Shape{Shape::kUnknown}) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("bytes field \"", field.name, "\" must have the shape [?]"));
  }
  if (spec.preferred_rows >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError("SampleOpSpec.preferred_rows must be at least 1");
}

}  // namespace

int64_t ValueBytes(DType dtype, const Shape& shape) {
  auto bytes = static_cast<int64_t>(SizeOf(dtype));
  bool empty = false;
  for (const int64_t extent : shape.extents()) {
    if (extent < 0) return -1;
    empty = empty || extent == 0;
    if (extent > 0 && bytes > kMaxValueBytes / extent) return -1;
    if (extent > 0) bytes *= extent;
  }
  return empty ? 0 : bytes;
}

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

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    for (const std::string& name : spec_.reads) MILLRACE_RETURN_IF_ERROR(input.CheckHas(name));
    for (const Field& expected : spec_.expects) {
      MILLRACE_RETURN_IF_ERROR(input.CheckHas(expected.name));
      const Field& field = *input.Find(expected.name);
      if (field.dtype == expected.dtype && expected.shape.Admits(field.shape)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "field \"", field.name, "\" is ", ToAbsl(Name(field.dtype)), field.shape.ToString(),
          ", the op takes ", ToAbsl(Name(expected.dtype)), expected.shape.ToString()));
    }
    Schema output = input;
    for (const std::string& name : spec_.removes) {
      MILLRACE_RETURN_IF_ERROR(output.CheckHas(name));
      output.Remove(name);
    }
    for (const Field& field : spec_.writes) output.Set(field);
    return output;
  }

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
    absl::Status status;
    MILLRACE_RETURN_IF_ERROR(Caught([&] { status = function_(sample, output); }));
    MILLRACE_RETURN_IF_ERROR(status);
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
