#include "pipeline/stages/cut_ops.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/record_error.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

absl::Status FeatureError(const Run& run, int64_t row, std::string_view text) {
  absl::Status status = absl::InvalidArgumentError(ToAbsl(text));
  RecordError error;
  error.position = static_cast<int64_t>(run.position(row));
  error.reason = RecordErrorReason::kFeature;
  SetRecordError(status, error);
  return status;
}

bool IsSplit(std::string_view name, std::span<const std::string> split) {
  return split.empty() || std::ranges::find(split, name) != split.end();
}

Shape WithoutFirst(const Shape& shape) { return Shape(shape.extents().subspan(1)); }

class UnbatchSlice final : public Op {
 public:
  explicit UnbatchSlice(std::vector<std::string> fields) : fields_(std::move(fields)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(CheckThere(input));
    Schema output = input;
    const Field* first = nullptr;  // the first field with a known extent
    for (const Field& field : input.fields()) {
      if (!IsSplit(field.name, fields_)) continue;
      if (field.dtype == DType::kBytes || field.shape.rank() == 0) return CannotSplit(field);
      const int64_t extent = field.shape[0];
      if (first != nullptr && extent != Shape::kUnknown && extent != first->shape[0]) {
        return absl::InvalidArgumentError(absl::StrCat("unbatch: field \"", first->name, "\" has ",
                                                       first->shape[0], " elements, field \"",
                                                       field.name, "\" has ", extent));
      }
      if (first == nullptr && extent != Shape::kUnknown) first = &field;
      output.Set({field.name, field.dtype, WithoutFirst(field.shape)});
    }
    return output;
  }

  void Apply(Run& run) const override {
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const absl::StatusOr<int64_t> count = CountElements(run, row, fields_);
      if (!count.ok()) {
        run.Fail(row, count.status());
      } else if (run.id(row).sub_index >= static_cast<uint64_t>(*count)) {
        run.Fail(row, FeatureError(run, row,
                                   ToStd(absl::StrCat("no element ", run.id(row).sub_index, " of ",
                                                      *count))));
      }
    }
    TakeElements(run, fields_);
  }

 private:
  absl::Status CheckThere(const Schema& input) const {
    if (input.fields().empty()) return absl::InvalidArgumentError("unbatch: there are no fields");
    std::vector<std::string> names;
    for (const Field& field : input.fields()) names.push_back(field.name);
    for (const std::string& name : fields_) {
      if (input.Find(name) != nullptr) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("unbatch: no field \"", name, "\"", DidYouMean(name, names)));
    }
    return absl::OkStatus();
  }

  absl::Status CannotSplit(const Field& field) const {
    return absl::InvalidArgumentError(
        absl::StrCat("unbatch: field \"", field.name, "\" is ",
                     field.dtype == DType::kBytes ? "bytes" : "a scalar", " and cannot be split",
                     fields_.empty() ? "; name the fields to split, the others are repeated" : ""));
  }

  const std::vector<std::string> fields_;
};

class FilterCheck final : public Op {
 public:
  explicit FilterCheck(Predicate predicate) : predicate_(std::move(predicate)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(predicate_.Resolve(input));
    return input;
  }

  void Apply(Run& run) const override {
    const auto rows = static_cast<size_t>(run.num_rows());
    const std::span keep(reinterpret_cast<uint8_t*>(run.arena().Allocate(rows)), rows);
    predicate_.Evaluate(run, keep);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row) || keep[static_cast<size_t>(row)] != 0) continue;
      run.Fail(row, absl::DataLossError(
                        absl::StrCat("not (", predicate_.text(),
                                     "): the file changed after the filter's outcome was kept")));
    }
  }

 private:
  Predicate predicate_;
};

class Identity final : public Op {
 public:
  absl::StatusOr<Schema> Resolve(const Schema& input) override { return input; }
  void Apply(Run&) const override {}
};

}  // namespace

absl::StatusOr<int64_t> CountElements(const Run& run, int64_t row,
                                      std::span<const std::string> split) {
  const Column* first = nullptr;
  for (const Column& column : run.columns()) {
    if (!IsSplit(column.name(), split)) continue;
    const ConstTensorView value = column.at(row);
    if (value.data == nullptr || value.dtype == DType::kBytes || value.shape.rank() == 0) {
      return FeatureError(run, row,
                          ToStd(absl::StrCat("field \"", column.name(), "\" cannot be split")));
    }
    if (first == nullptr) first = &column;
    const int64_t count = first->at(row).shape[0];
    if (value.shape[0] == count) continue;
    return FeatureError(
        run, row,
        ToStd(absl::StrCat("fields to split differ: \"", first->name(), "\" has ", count,
                           " elements, \"", column.name(), "\" has ", value.shape[0])));
  }
  if (first == nullptr) return FeatureError(run, row, "there is no field to split");
  return first->at(row).shape[0];
}

void TakeElements(Run& run, std::span<const std::string> split) {
  std::vector<std::string> names;
  for (const Column& column : run.columns()) {
    if (IsSplit(column.name(), split)) names.push_back(column.name());
  }
  for (const std::string& name : names) {
    const Column whole = run.Take(name);
    Column& part = run.Add(name, whole.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView value = whole.at(row);
      const Shape shape = WithoutFirst(value.shape);
      const size_t bytes = static_cast<size_t>(shape.num_elements()) * SizeOf(value.dtype);
      part.Set(row, static_cast<const std::byte*>(value.data) + run.id(row).sub_index * bytes,
               shape);
    }
  }
}

absl::StatusOr<std::unique_ptr<Op>> MakeUnbatchSlice(std::vector<std::string> fields) {
  std::set<std::string_view> names;
  for (const std::string& field : fields) {
    if (!names.insert(field).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("unbatch: field \"", field, "\" is given twice"));
    }
  }
  return std::make_unique<UnbatchSlice>(std::move(fields));
}

absl::StatusOr<std::unique_ptr<Op>> MakeFilterCheck(Predicate predicate) {
  return std::make_unique<FilterCheck>(std::move(predicate));
}

absl::StatusOr<std::unique_ptr<Op>> MakeIdentity() { return std::make_unique<Identity>(); }

}  // namespace millrace::pipeline
