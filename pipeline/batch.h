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
#include "base/run.h"
#include "base/tensor.h"

namespace millrace::pipeline {

struct BatchData;  // pipeline/batch/data.h

// A sample whose data is damaged, under a plan that does not end there (`on_damage`).
struct DamagedSample {
  // Of the slice: a row that stands empty for it, or where another stands in its place.
  int64_t row = 0;
  SampleId id;
  absl::Status error;  // what was wrong; RecordError says which record, and its own position
};

// One rank's slice of a global batch: a slab of named tensors [rows, ...]. A handle: copies share
// the slab, which goes back to its pool with the last of them. A batch may outlive its pipeline.
// Immutable, thread-safe.
class Batch {
 public:
  Batch() = default;
  explicit Batch(std::shared_ptr<const BatchData> data) : data_(std::move(data)) {}

  // Number of the global batch, from 0, counted over all epochs.
  uint64_t index() const;
  // How often the source was begun before this batch's first row.
  uint64_t epoch() const;
  // True for the last batch before the epoch changes (or the stream ends).
  bool ends_epoch() const;

  // Rows of every tensor here, padding included: the same on every rank.
  int64_t num_rows() const;
  // Rows that hold samples: valid()[r] != 0.
  int64_t num_valid_rows() const;
  // Valid rows of the global batch over all ranks (what a loss is divided by).
  int64_t num_global_valid_rows() const;
  // Number in the global batch of this slice's row 0.
  int64_t first_global_row() const;
  // One byte per row: 1 valid, 0 padding (all of whose bytes are 0).
  std::span<const uint8_t> valid() const;
  // Who each row is; a padding row has {0, 0}.
  std::span<const SampleId> ids() const;

  // Samples of this slice that are damaged, by position. They count in num_global_valid_rows, since
  // no rank knows those of the others.
  std::span<const DamagedSample> damaged() const;

  // The tensors in the order of the plan's final schema. Their memory lives as long as a handle
  // does.
  std::span<const std::string> names() const;
  ConstTensorView tensor(size_t i) const;
  // The extents of a row's own value: less than the tensor's where it is padded. A ragged field's
  // tensor holds the values of its rows one after the other, and the tensor behind it,
  // "NAME/row_splits", where they begin: int64[rows + 1].
  Shape row_shape(size_t i, int64_t row) const;
  // Returns the tensor of that name; a view with data == nullptr when there is none.
  ConstTensorView Find(std::string_view name) const;

  // The state from which a pipeline with the same plan and data continues after this batch, at any
  // world.
  const std::string& resume_token() const;

 private:
  friend const BatchData& DataOf(const Batch& batch);  // pipeline/batch/data.h
  std::shared_ptr<const BatchData> data_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_H_
