#ifndef MILLRACE_PIPELINE_SAMPLE_OP_H_
#define MILLRACE_PIPELINE_SAMPLE_OP_H_

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
#include "base/run.h"
#include "base/schema.h"
#include "base/tensor.h"

// An op made from a function that works on one sample, as most user code does.

namespace millrace::pipeline {

// Returns the bytes of a value; -1 if an extent is negative, or if they are more than 1 TiB.
int64_t ValueBytes(DType dtype, const Shape& shape);

// The fields that a function on samples, or on runs of them, reads and writes.
struct SampleOpSpec {
  // The stage's name, on which its random draws depend: OpArgs::stage.
  std::string stage;
  // Fields that the function sees, of any dtype and shape unless `expects` names one.
  std::vector<std::string> reads;
  // Dtypes and shapes (unknown extents admit any) that some of `reads` must have.
  std::vector<Field> expects;
  // Fields that the function writes, new ones or replacements of fields of that name. Shapes may
  // have unknown extents (kBytes: one unknown extent, {Shape::kUnknown}).
  std::vector<Field> writes;
  std::vector<std::string> removes;  // fields that samples lose

  // performance only: results are the same for every value
  int64_t preferred_rows = 1;
};

// The sample that a function works on. Borrows its memory, and lives for one call.
class Sample {
 public:
  const SampleId& id() const { return run_.id(row_); }
  // The sample's position in the stream (docs/semantics.md, S-ORDER-5).
  uint64_t position() const { return run_.position(row_); }
  // The value of SampleOpSpec::reads[i].
  ConstTensorView tensor(size_t i) const { return columns_[i]->at(row_); }
  // The value of reads[i], a kBytes field.
  std::string_view bytes(size_t i) const { return columns_[i]->bytes(row_); }
  // The stage's random words for this sample. Every call returns the same words again.
  RandomStream Random() const { return run_.Random(row_, key_); }

 private:
  friend class SampleOp;
  Sample(const Run& run, std::span<const Column* const> columns, uint64_t key)
      : run_(run), columns_(columns), key_(key) {}

  const Run& run_;
  const std::span<const Column* const> columns_;
  const uint64_t key_;
  int64_t row_ = 0;
};

// The results of a function, which must set every field of SampleOpSpec::writes once. Borrows its
// memory, and lives for one call.
class SampleOutput {
 public:
  // Returns zeroed memory for the value of writes[i].
  //   INVALID_ARGUMENT  writes[i] does not admit the shape, or the shape is absurdly large
  absl::StatusOr<TensorView> Allocate(size_t i, const Shape& shape);
  // Returns zeroed memory of the declared shape, which must have no unknown extent.
  absl::StatusOr<TensorView> Allocate(size_t i) { return Allocate(i, fields_[i].shape); }
  // Sets writes[i], a kBytes field, to a copy of `bytes`.
  absl::Status SetBytes(size_t i, std::string_view bytes);

 private:
  friend class SampleOp;
  SampleOutput(Run& run, std::span<const Field> fields);

  Run& run_;
  const std::span<const Field> fields_;
  std::vector<Column> columns_;
  int64_t row_ = 0;
};

// A function that works on one sample. Many threads call it at once. An error is the error of the
// sample (the sample's origin is added), and an exception is an INTERNAL error of it. The result
// must depend on the sample alone.
using SampleFunction = std::function<absl::Status(const Sample& sample, SampleOutput& output)>;

// Makes an op that calls `function` for every sample that has no error.
//   INVALID_ARGUMENT  the function is empty, a field is named twice, a field that is written has a
//                     shape that no value has, or preferred_rows < 1
absl::StatusOr<std::unique_ptr<Op>> MakeSampleOp(SampleOpSpec spec, SampleFunction function);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SAMPLE_OP_H_
