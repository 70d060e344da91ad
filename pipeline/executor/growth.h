#ifndef MILLRACE_PIPELINE_EXECUTOR_GROWTH_H_
#define MILLRACE_PIPELINE_EXECUTOR_GROWTH_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/run.h"
#include "pipeline/batch/data.h"
#include "pipeline/cut/settler.h"
#include "pipeline/executor/parts.h"
#include "pipeline/executor/scan_run.h"
#include "pipeline/order/growing_order.h"
#include "pipeline/order/order.h"
#include "pipeline/source/growing.h"

// A source that grows while it is read. Batches and positions of lanes become known as records
// come, and the stream's end when the source's does. Every record is given back once, as soon as no
// row that is left needs it:
//   - no row is made of it, by the order (LeftOut), by pass 1, or since its lane is done;
//   - all its rows were dropped behind pass 1, or are other ranks' (Settler::TakeDropped);
//   - the last batch with one of its rows is delivered.

namespace millrace::pipeline {

// How far the source of a pipeline has grown. Of any other source, the order is that of all its
// records and nothing ever changes. Thread-compatible; the executor's mutex guards it.
class Growth {
 public:
  // Borrows the parts for its lifetime.
  explicit Growth(const ExecutorParts& parts) : parts_(parts) {}

  // Begins at the start of the stream. REQUIRES: the source grows.
  void Begin(LeftOut left_out) { left_out_ = std::move(left_out); }

  // True until the source has ended.
  bool may_grow() const { return parts_.growing != nullptr && !final_order_.has_value(); }
  // The order of the stream; once the source has ended, that of its records.
  const BatchOrder& order() const {
    return final_order_.has_value() ? *final_order_ : parts_.order;
  }
  // The number of elements of the order that are known.
  uint64_t elements() const { return elements_; }

  enum class News { kNone, kElements, kEnd };
  // Looks at the source and says what is new: more elements are known, or all there will be.
  //   the errors of BatchOrder::Make
  absl::StatusOr<News> Look();

  // True if the rows of batch `batch` of a plan without a cut are known. If not and `wants`, the
  // source is told to take its records even when it is full.
  bool Knows(uint64_t batch, bool wants) const;
  // Tells the source to take the record of this position even when it is full.
  void Want(uint64_t position) const;
  // The status that the stream ends with: an error behind the last record counts if the stream
  // `came_so_far`.
  absl::Status EndStatus(bool came_so_far) const;

 private:
  // Constant after construction.
  const ExecutorParts& parts_;

  std::optional<BatchOrder> final_order_;  // the order of all records, once the source has ended
  std::optional<LeftOut> left_out_;        // finds records of no row, until the source has ended
  uint64_t records_ = 0;                   // the records that are known
  uint64_t elements_ = 0;
};

// Gives back one use of each of these records.
void ReleaseRecords(GrowingSource& source, std::span<const SampleId> ids);
// Gives back the records of a batch's rows.
void ReleaseRows(GrowingSource& source, const BatchData& batch);
// Says how many rows pass 1 made of each record of `run`. The findings are in the order of the run.
void TellUses(GrowingSource& source, const ScanRun& run, const Examined& found);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_GROWTH_H_
