#ifndef MILLRACE_PIPELINE_BATCH_OP_H_
#define MILLRACE_PIPELINE_BATCH_OP_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/philox.h"
#include "base/run.h"
#include "base/schema.h"
#include "base/tensor.h"
#include "pipeline/found_tensor.h"

namespace millrace::pipeline {

// One rank's slice of a finished global batch, which a BatchOp changes in place. Borrows its
// memory, and lives for one call of Apply.
struct BatchView {
  uint64_t index = 0;            // number of the global batch
  uint64_t epoch = 0;            // as Batch::epoch
  int64_t first_global_row = 0;  // number of row 0 within the global batch
  int64_t num_global_valid_rows = 0;
  std::span<const uint8_t> valid;  // one byte per row: 0 for a row without a sample
  std::span<const SampleId> ids;
  std::span<const std::string> names;
  std::span<const TensorView> tensors;  // [rows, ...], in the order of `names`
  uint64_t seed = 0;                    // the plan's seed
  uint64_t stage_key = 0;               // HashName of the stage's name

  int64_t num_rows() const { return static_cast<int64_t>(valid.size()); }
  // Returns the tensor of that name, as Batch::Find does.
  FoundTensor<TensorView> Find(std::string_view name) const;

  // The random words of the batch as a whole: the same on every rank.
  RandomStream Random() const;
  // The random words of one row of the slice: the same in a world of any size.
  RandomStream RandomOfRow(int64_t row) const;
};

// A stage of the host program that works on finished batches. Thread-safe after Resolve: Apply runs
// on several batches at once.
class BatchOp {
 public:
  virtual ~BatchOp() = default;

  // Checks the fields of a batch (per sample); called once, before the first Apply. Must return
  // `batch_schema` itself: a batch op changes values, not fields.
  virtual absl::StatusOr<Schema> Resolve(const Schema& batch_schema) = 0;

  // Changes the batch's tensors in place. The result of a row may depend on the batch's numbers and
  // on the rows of its group alone (group_rows). Rows with valid[r] == 0 must stay zero. An error,
  // or an exception, is the error of the batch.
  virtual absl::Status Apply(BatchView& batch) const = 0;

  // The number of rows of a group, whose rows are mixed with each other; groups are counted from
  // row 0 of the global batch. 1: no row depends on another. The slice of every rank must hold
  // whole groups.
  virtual uint64_t group_rows() const { return 1; }
};

// Checks that the slice of every rank holds whole groups. The ranks share `units` units of
// batch_size / units rows each: single rows, or the lanes of a plan with a cut.
//   INVALID_ARGUMENT  a group would be torn; the message says which sizes fit
absl::Status CheckGroupRows(uint64_t group_rows, uint64_t batch_size, uint64_t units, int world);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_OP_H_
