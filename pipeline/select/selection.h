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
#include "base/run.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan/physical.h"
#include "readers/record_source.h"

// The records that `filter { materialize: true }` keeps (docs/semantics.md, S-SELECT), as one bit
// for each record of the sources. The order counts kept records and turns their numbers into those
// of records, so that behind it nothing has to be looked at.

namespace millrace::pipeline {

// A bitmap with rank and select: 9/8 bits a record. Immutable, thread-safe.
class Selection {
 public:
  // Bit r % 64 of bits[r / 64] says whether record r is kept. REQUIRES: there are just enough
  // words, and bits behind the last record are 0.
  Selection(uint64_t num_records, std::vector<uint64_t> bits);

  uint64_t num_records() const { return num_records_; }
  uint64_t num_kept() const { return kept_before_.back(); }
  std::span<const uint64_t> bits() const { return bits_; }
  uint64_t memory_bytes() const { return 8 * (bits_.size() + kept_before_.size()); }
  // Of the records that are kept: equal for equal selections.
  uint64_t Digest() const;

  // How many records before `record` are kept. REQUIRES: record <= num_records().
  uint64_t KeptBefore(uint64_t record) const;
  // How many of `count` records from `first` on are kept.
  uint64_t KeptOf(uint64_t first, uint64_t count) const {
    return KeptBefore(first + count) - KeptBefore(first);
  }
  // Turns each id's record, a number among kept records from the `first_kept`-th on, into the
  // number of that record. Cheapest in ascending order. REQUIRES: each is below num_kept().
  void ToRecords(uint64_t first_kept, std::span<SampleId> ids) const;

 private:
  uint64_t num_records_;
  std::vector<uint64_t> bits_;
  std::vector<uint64_t> kept_before_;  // each block of 8 words, and behind the last
};

// Examines all records of the source, on the context's workers: `scan` is a SelectPlan's. Records
// that cannot be judged are kept, and so is one whose frame is damaged.
//   the first read that fails
absl::StatusOr<Selection> ScanRecords(const PhysicalPlan& scan, const readers::RecordSource& source,
                                      Context& context, const OpenOptions& options);

// What a selection was made from: 128 bits.
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
