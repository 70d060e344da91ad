#ifndef MILLRACE_PIPELINE_RUN_OP_H_
#define MILLRACE_PIPELINE_RUN_OP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/op.h"
#include "base/philox.h"
#include "base/run.h"
#include "base/schema.h"
#include "base/tensor.h"
#include "pipeline/sample_op.h"

// An op made from a function that works on runs: consecutive samples, which it gets at once. It
// reads fields as columns, and writes fields into the memory of all rows, which is the batch's own
// where no later op writes the field.

namespace millrace::pipeline {

// A field that a function on runs reads: a value per row. Borrows its memory, and lives for one
// call.
class RunColumn {
 public:
  const std::string& name() const { return column_.name(); }
  DType dtype() const { return column_.dtype(); }
  // The value of a row. REQUIRES: RunView::ok(row).
  ConstTensorView at(int64_t row) const { return column_.at(first_row_ + row); }
  // The value of a row of a kBytes field. REQUIRES: RunView::ok(row).
  std::string_view bytes(int64_t row) const { return column_.bytes(first_row_ + row); }

  // True if values have one shape and lie at equal distances. Only then the next three are valid.
  bool is_strided() const { return column_.is_dense(); }
  const std::byte* first() const { return column_.first() + first_row_ * stride_bytes(); }
  int64_t stride_bytes() const { return column_.stride_bytes(); }
  const Shape& row_shape() const { return column_.row_shape(); }

 private:
  friend class RunView;
  RunColumn(const Column& column, int64_t first_row) : column_(column), first_row_(first_row) {}

  const Column& column_;
  const int64_t first_row_;
};

// The run that a function works on, or one row of it. Rows are counted from 0. Borrows its memory,
// and lives for one call.
class RunView {
 public:
  int64_t num_rows() const { return num_rows_; }
  // False for a row that an earlier stage or Fail has made bad. It has no values to read, and none
  // need be written.
  bool ok(int64_t row) const { return rows_.run.ok(first_row_ + row); }
  const SampleId& id(int64_t row) const { return rows_.run.id(first_row_ + row); }
  // The row's position in the stream (docs/semantics.md, S-ORDER-5).
  uint64_t position(int64_t row) const { return rows_.run.position(first_row_ + row); }

  size_t num_reads() const { return rows_.reads.size(); }
  size_t num_writes() const { return rows_.writes.size(); }
  // The field SampleOpSpec::reads[i].
  RunColumn reads(size_t i) const { return {*rows_.reads[i], first_row_}; }
  // The field SampleOpSpec::writes[i].
  const Field& field(size_t i) const { return rows_.fields[i]; }

  // Returns the memory for writes[i] of all rows, one after the other: zeroed elements, of type T.
  // Empty if the declared shape has an unknown extent (Allocate).
  template <typename T = std::byte>
  std::span<T> writes(size_t i) const {
    return {reinterpret_cast<T*>(MemoryOf(i)), BytesOf(i) / sizeof(T)};
  }
  // Returns memory for the value of writes[i] in a row, uninitialised; for a field whose declared
  // shape has an unknown extent.
  //   INVALID_ARGUMENT  the declared shape does not admit this one, or has no unknown extent; or
  //                     the shape is absurdly large
  absl::StatusOr<TensorView> Allocate(size_t i, int64_t row, const Shape& shape);
  // Sets writes[i], a kBytes field, of a row to a copy of `bytes`.
  //   the errors of Allocate
  absl::Status SetBytes(size_t i, int64_t row, std::string_view bytes);

  // Makes the row bad; the first error stays.
  void Fail(int64_t row, absl::Status error) { rows_.run.Fail(first_row_ + row, std::move(error)); }

  // The stage's random words for a row. Every call returns the same words again.
  RandomStream Random(int64_t row) const { return rows_.run.Random(first_row_ + row, rows_.key); }
  // Returns the first `words_per_row` random words of each row, row after row.
  std::vector<uint32_t> RandomWords(size_t words_per_row) const;

 private:
  friend class RunOp;
  // The columns and the memory of all rows of a run.
  struct Rows {
    Run& run;
    std::span<const Field> fields;  // of `writes`
    uint64_t key;
    std::vector<const Column*> reads;
    std::vector<Column*> writes;
    std::vector<std::byte*> memory;  // of `writes`; null where shapes are not known
  };
  RunView(Rows& rows, int64_t first_row, int64_t num_rows)
      : rows_(rows), first_row_(first_row), num_rows_(num_rows) {}

  std::byte* MemoryOf(size_t i) const;
  size_t BytesOf(size_t i) const;

  Rows& rows_;
  const int64_t first_row_;
  const int64_t num_rows_;
};

// A function that works on runs. Many threads call it at once. After an error or an exception of a
// run of several rows it is called for each row alone, with zeroed memory, so that the error is
// that of its row (the sample's origin is added). The result of a row must depend on the row alone,
// never on how rows are grouped into runs.
using RunFunction = std::function<absl::Status(RunView& run)>;

// Makes an op that calls `function` for runs of samples.
//   INVALID_ARGUMENT  as MakeSampleOp
absl::StatusOr<std::unique_ptr<Op>> MakeRunOp(SampleOpSpec spec, RunFunction function);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_OP_H_
