#ifndef MILLRACE_PIPELINE_BATCH_H_
#define MILLRACE_PIPELINE_BATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/run.h"
#include "base/tensor.h"
#include "pipeline/found_tensor.h"

namespace millrace::pipeline {

struct BatchData;  // pipeline/batch/data.h

// A damaged sample, in a batch of a plan that goes on in spite of it (`on_damage`).
struct DamagedSample {
  // The row of the slice that is empty because of it, or that holds another sample instead.
  int64_t row = 0;
  SampleId id;
  absl::Status error;  // the fault; RecordError names the record, and its position
};

// One rank's slice of a global batch: a slab of named tensors [rows, ...]. A Batch is a handle:
// copies share the slab, which returns to its pool when the last of them is gone. A batch may
// outlive its pipeline. Immutable, thread-safe.
class Batch {
 public:
  Batch() = default;
  explicit Batch(std::shared_ptr<const BatchData> data) : data_(std::move(data)) {}

  // The number of the global batch, counted from 0 over all epochs.
  uint64_t index() const;
  // The number of the epoch of the batch's first row, from 0.
  uint64_t epoch() const;
  // True if the epoch changes, or the stream ends, behind this batch.
  bool ends_epoch() const;

  // The number of rows of every tensor, padding included. The same on every rank.
  int64_t num_rows() const;
  // The number of rows that hold samples: those with valid()[r] != 0.
  int64_t num_valid_rows() const;
  // The number of valid rows of the global batch, over all ranks. A loss is divided by it.
  int64_t num_global_valid_rows() const;
  // The number of this slice's row 0 within the global batch.
  int64_t first_global_row() const;
  // One byte per row: 1 for a sample, 0 for padding, whose bytes are all 0.
  std::span<const uint8_t> valid() const;
  // The sample of each row; {0, 0} for padding.
  std::span<const SampleId> ids() const;

  // The damaged samples of this slice, by position. They count in num_global_valid_rows, since no
  // rank knows the damaged samples of the others.
  std::span<const DamagedSample> damaged() const;

  // The tensors, in the order of the plan's final schema. Their memory lives as long as a handle.
  std::span<const std::string> names() const;
  ConstTensorView tensor(size_t i) const;
  // The shape of the value of one row, which is smaller than that of the tensor if the value is
  // padded. The tensor of a ragged field holds the values of all rows one after the other; the next
  // tensor, "NAME/row_splits", int64[rows + 1], says where each begins.
  Shape row_shape(size_t i, int64_t row) const;
  // Returns the tensor of that name; one with data == nullptr if there is none, whose as<T>() ends
  // the process, as that of a tensor whose elements are no T does.
  FoundTensor<ConstTensorView> Find(std::string_view name) const;
  // Returns the elements of the tensor of that name.
  //   NOT_FOUND         there is no such tensor; the text lists those that there are
  //   INVALID_ARGUMENT  its elements are no T
  template <typename T>
  absl::StatusOr<std::span<const T>> Get(std::string_view name) const {
    const FoundTensor<ConstTensorView> found = Find(name);
    if (absl::Status status = found.Check<T>(); !status.ok()) return status;
    return found.as<T>();
  }

  // The state from which a pipeline with the same plan and data continues after this batch, in a
  // world of any size.
  const std::string& resume_token() const;

 private:
  friend const BatchData& DataOf(const Batch& batch);  // pipeline/batch/data.h
  std::shared_ptr<const BatchData> data_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_H_
