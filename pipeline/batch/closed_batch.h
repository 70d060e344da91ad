#ifndef MILLRACE_PIPELINE_BATCH_CLOSED_BATCH_H_
#define MILLRACE_PIPELINE_BATCH_CLOSED_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/run.h"

// A batch of a plan with a cut, as the settler closes it: its rows are known, and not yet read.

namespace millrace::pipeline {

// The element of a lane's input that a row is made of.
struct RowOrigin {
  SampleId id;            // the sample, with its sub_index
  uint64_t position = 0;  // the record's position in the lane's input, over all passes of the lane
  friend bool operator==(const RowOrigin&, const RowOrigin&) = default;
};

// This rank's part of a global batch. A batch with an error in a row is an error, which is the
// caller's concern.
struct ClosedBatch {
  struct Row {
    RowOrigin origin;
    int64_t slot = 0;  // row of this rank's slab
    uint32_t lane = 0;
    int32_t error = -1;  // index into errors; -1: none
  };
  uint64_t index = 0;
  uint64_t pass = 0;  // passes over the batch stage before this one
  uint64_t epoch = 0;
  bool ends_epoch = false;       // true if the epoch changes, or the stream ends, behind it
  int64_t num_slots = 0;         // rows of this rank's tensors, those without a sample included
  int64_t first_global_row = 0;  // the global row of slot 0
  int64_t num_global_valid_rows = 0;
  std::vector<Row> rows;             // the rows, by ascending slots
  std::vector<int64_t> extents;      // per row, as Examined::extents
  std::vector<absl::Status> errors;  // the errors, complete but for the position in the stream
  int64_t pad_to = -1;  // kBucket with pad_to_boundary: the first extent to pad to; -1: none
  std::string state;    // the settler's state behind this batch (Settler::Restore)
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_BATCH_CLOSED_BATCH_H_
