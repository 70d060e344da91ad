#ifndef MILLRACE_PIPELINE_SOURCE_OPEN_H_
#define MILLRACE_PIPELINE_SOURCE_OPEN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/cut/length_table.h"
#include "pipeline/order/order.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/physical.h"
#include "pipeline/source/growing.h"
#include "pipeline/stages/specs.h"
#include "readers/record_source.h"

// The sources of a plan behind one view: records and files are numbered through all of them.

namespace millrace::pipeline {

struct OpenedSources {
  std::unique_ptr<readers::RecordSource> source;
  GrowingSource* growing = nullptr;            // `source`, if it is one
  std::vector<OrderSource> facts;              // the facts of each source of the plan
  std::shared_ptr<const Selection> selection;  // the selection that the facts have; null: none
  std::shared_ptr<const LengthTable> lengths;  // the lengths that are kept; null: none

  // Decides which records there are, if the plan selects any (OpenSelection).
  absl::Status Select(const PhysicalPlan& plan, Context& context, const OpenOptions& options);
  // Takes or makes the lengths, if the plan keeps them (OpenLengths).
  absl::Status KeepLengths(const PhysicalPlan& plan, Context& context, const OpenOptions& options);
  // The most bytes that the sources keep in memory as long as they live.
  uint64_t MemoryBytes() const;
  // A hash of the data that the stream is made of: of the source, and of the records selected.
  uint64_t Fingerprint() const;
};

// Opens all sources of the plan. Blocks while indexes are made.
//   INVALID_ARGUMENT     no push source in the options, or the plan cannot read one
//   FAILED_PRECONDITION  another pipeline reads the push source
//   the errors of readers::RecordSource::Open
absl::StatusOr<OpenedSources> OpenSources(const PhysicalPlan& plan, Context& context,
                                          const OpenOptions& options);

// The window that an order reads from before it goes on.
struct ReadWindow {
  uint64_t records = 0;  // the records of the largest shuffle
  uint64_t bytes = 0;    // inflated ones, of the blocks of a global_shuffle { block_bytes }
  readers::FetchOrder fetch;
};
// For one of `world` ranks.
ReadWindow WindowOfOrder(const PhysicalPlan& plan, int world);

// Opens one source. Blocks while indexes are made, by the context's workers; without a context by
// the calling thread. An order that jumps about within a window may keep blocks of the
// files, of a 16th of the memory budget at most.
// REQUIRES: spec.kind is not kPush.
//   INVALID_ARGUMENT  no records of that name in options.memory
//   the errors of readers::RecordSource::Open and readers::OpenImageRecords
absl::StatusOr<std::unique_ptr<readers::RecordSource>> OpenSource(const SourceSpec& spec,
                                                                  const ReadWindow& window,
                                                                  Context* context,
                                                                  const OpenOptions& options);

// Sources that are open already, one per source of the plan. REQUIRES: none of them grows.
OpenedSources JoinSources(const PhysicalPlan& plan,
                          std::vector<std::unique_ptr<readers::RecordSource>> sources);

// Makes the ops of custom stages from options.ops, which it borrows; empty when there is no table.
CustomFactory CustomOpsOf(const OpenOptions& options);

// The integers 0, 1, ..., count - 1: records of no bytes, their values are their numbers.
std::unique_ptr<readers::RecordSource> MakeRangeSource(uint64_t count);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SOURCE_OPEN_H_
