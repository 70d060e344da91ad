#ifndef MILLRACE_PIPELINE_SELECT_SELECTION_H_
#define MILLRACE_PIPELINE_SELECT_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/order/selection.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/physical.h"
#include "readers/record_source.h"

// The records that `filter { materialize: true }` keeps (docs/semantics.md, S-SELECT), as one bit
// for each record of the sources. The order counts kept records and turns their numbers into those
// of records, so that behind it nothing has to be looked at.

namespace millrace::pipeline {

// Examines all records of the source, on the context's workers: `scan` is a SelectPlan's. Records
// that cannot be judged are kept, and so is one whose frame is damaged.
//   the first read that fails
absl::StatusOr<Selection> ScanRecords(const PhysicalPlan& scan, const readers::RecordSource& source,
                                      Context& context, const OpenOptions& options);

// A hash of the inputs that a selection was made from: 128 bits.
struct SelectionKey {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const SelectionKey&, const SelectionKey&) = default;
};
SelectionKey KeyOf(std::string_view text);

// The file of a selection (readers/FORMAT.md).
std::vector<std::byte> EncodeSelection(const Selection& selection, const SelectionKey& key);
// Nullopt when the bytes are damaged, or of another version, key or number of records.
std::optional<Selection> DecodeSelection(std::span<const std::byte> bytes, const SelectionKey& key,
                                         uint64_t num_records);

// Null where the plan has no select. Takes the selection from the folder of indexes, or makes and
// keeps it; blocks meanwhile. That it could not be kept is a warning in the log.
//   the errors of ScanRecords
absl::StatusOr<std::shared_ptr<const Selection>> OpenSelection(const PhysicalPlan& plan,
                                                               const readers::RecordSource& source,
                                                               Context& context,
                                                               const OpenOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SELECT_SELECTION_H_
