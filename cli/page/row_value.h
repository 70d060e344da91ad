#ifndef MILLRACE_CLI_PAGE_ROW_VALUE_H_
#define MILLRACE_CLI_PAGE_ROW_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "pipeline/batch.h"

namespace millrace::cli {

// The value of one field in one row of a batch, without padding. A value type.
class RowValue {
 public:
  // The value of tensor `i`, which is not a "NAME/row_splits". REQUIRES: row < batch.num_rows().
  static RowValue Of(const pipeline::Batch& batch, size_t i, int64_t row);

  RowValue(DType dtype, const Shape& shape, std::vector<std::byte> bytes)
      : dtype_(dtype), shape_(shape), bytes_(std::move(bytes)) {}

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  // Element `i`, row-major. REQUIRES: a numeric dtype (uint8 is one).
  double at(int64_t i) const;

  // A text for people: "7", "[0.25, 1, ...] float32[224]", "\"cat\"" for uint8 values that are
  // text. Long texts are cut.
  std::string ToText() const;

 private:
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PAGE_ROW_VALUE_H_
