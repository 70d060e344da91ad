#ifndef MILLRACE_PIPELINE_EXECUTOR_PARTS_H_
#define MILLRACE_PIPELINE_EXECUTOR_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/context.h"
#include "pipeline/batch/data.h"
#include "pipeline/batch/host_allocator.h"
#include "pipeline/batch_op.h"
#include "pipeline/cut/length_table.h"
#include "pipeline/order/order.h"
#include "pipeline/order/sample_windows.h"
#include "pipeline/order/selection.h"
#include "pipeline/order/zip.h"
#include "pipeline/plan/physical.h"
#include "pipeline/source/growing.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// How records behind URLs are told to the source before they are read (executor/lookahead.h).
struct LookaheadSizes {
  // Of records that are expected together; of a shuffle's window the mean.
  uint64_t chunk_bytes = 0;
  uint64_t limit_bytes = 0;  // of all records that are expected
};

// Everything an executor is made from.
struct ExecutorParts {
  PhysicalPlan plan;
  std::unique_ptr<readers::RecordSource> source;
  GrowingSource* growing = nullptr;              // `source`, if it grows
  std::unique_ptr<const Zip> zip;                // the zip over `source`, if the plan has one
  std::unique_ptr<const SampleWindows> windows;  // over `source` or `zip`, if the plan has some
  uint64_t data_fingerprint = 0;                 // the fingerprint of the data in tokens
  std::shared_ptr<const Selection> selection;    // the records of the source that count; null: all
  // The lengths that pass 1 would find in records, which it then does not read; null: none.
  std::shared_ptr<const LengthTable> lengths = nullptr;
  // Memory that the pipeline needs as long as it is open: of the source, the bits of a selection,
  // and the slots of the order's shuffles.
  int64_t standing_bytes = 0;
  BatchOrder order;  // the order of all records; with a cut only records() counts
  std::optional<LookaheadSizes> lookahead = std::nullopt;  // nullopt: nothing is told
  // The layout of every batch; where batches differ, that of one without rows.
  std::shared_ptr<const BatchLayout> layout;
  RankSlice slice;                                  // the rows of this rank, without a cut
  std::vector<std::unique_ptr<BatchOp>> batch_ops;  // one per plan.batch_ops
  int rank = 0;
  int world = 1;
  int prefetch_batches = 1;
  int cpu_budget = 0;       // 0: none
  int read_ahead_runs = 0;  // 0: by the number of threads
  int run_us = 0;           // work of a run; 0: RunSizes::kRunNanoseconds
  bool adapt = false;       // true if threads and open batches follow measurements
  // The most rows of a run, for tests; 0: as their cost says.
  int64_t rows_per_run = 0;
  // The clock, in nanoseconds, for tests; empty: the steady clock.
  std::function<int64_t()> clock;
  std::shared_ptr<HostAllocator> allocator;
  std::shared_ptr<Context> context;

  bool has_cut() const { return plan.cut.has_value(); }
  // The number of records, tuples of a zip or windows that samples are named by; kInfinite without
  // end.
  uint64_t num_records() const {
    if (windows != nullptr) return windows->num_windows();
    return zip != nullptr ? zip->size() : source->num_records();
  }
  SampleParts sample_parts() const { return {zip.get(), windows.get()}; }
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_PARTS_H_
