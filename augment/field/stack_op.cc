#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/field/columns.h"
#include "augment/field_ops.h"
#include "augment/image/errors.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

// A value of `size` bytes; small ones are single moves.
void CopyValue(std::byte* to, const void* from, size_t size) {
  switch (size) {
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    default:
      std::memcpy(to, from, size);
      break;
  }
}

class Stack final : public Op {
 public:
  explicit Stack(StackOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(const Field first, FindField(input, options_.fields[0], "stack"));
    if (first.dtype == DType::kBytes || !first.shape.IsKnown() ||
        first.shape.rank() >= Shape::kMaxRank - 1) {
      return FieldError(
          first, "stack",
          absl::StrCat("a numeric dtype and at most ", Shape::kMaxRank - 2, " extents, all known"));
    }
    Schema output = input;
    for (const std::string& name : options_.fields) {
      MILLRACE_ASSIGN_OR_RETURN(const Field field, FindField(input, name, "stack"));
      if (field.dtype != first.dtype || field.shape != first.shape) {
        return FieldError(field, "stack",
                          absl::StrCat(ToAbsl(Name(first.dtype)), first.shape.ToString(), ", as '",
                                       first.name, "' is"));
      }
      output.Remove(name);
    }
    shape_ = first.shape.Prepend(std::ssize(options_.fields));
    value_bytes_ = static_cast<size_t>(first.shape.num_elements()) * SizeOf(first.dtype);
    const Field stacked{options_.output, first.dtype, shape_};
    MILLRACE_RETURN_IF_ERROR(AddField(stacked, "stack", &output));
    return output;
  }

  void Apply(Run& run) const override {
    std::vector<Column> in;
    for (const std::string& field : options_.fields) in.push_back(run.Take(field));
    Column& out = run.Add(options_.output, in[0].dtype());
    const size_t row_bytes = value_bytes_ * in.size();
    if (run.all_ok()) {
      std::byte* const rows = run.AllocateAll(out, shape_);
      out.SetAll(rows, static_cast<int64_t>(row_bytes), shape_);
      for (size_t i = 0; i < in.size(); ++i) {
        std::byte* to = rows + i * value_bytes_;
        for (int64_t row = 0; row < run.num_rows(); ++row, to += row_bytes) {
          CopyValue(to, in[i].at(row).data, value_bytes_);
        }
      }
      return;
    }
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      auto* to = static_cast<std::byte*>(run.Allocate(out, row, shape_));
      for (size_t i = 0; i < in.size(); ++i, to += value_bytes_) {
        CopyValue(to, in[i].at(row).data, value_bytes_);
      }
    }
  }

 private:
  const StackOptions options_;
  // Set by Resolve.
  Shape shape_;
  size_t value_bytes_ = 0;  // of a field
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeStack(StackOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("stack", options.fields));
  if (options.output.empty()) return absl::InvalidArgumentError("stack: output is no name");
  return std::make_unique<Stack>(std::move(options));
}

}  // namespace millrace::augment
