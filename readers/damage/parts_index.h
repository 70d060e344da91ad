#ifndef MILLRACE_READERS_DAMAGE_PARTS_INDEX_H_
#define MILLRACE_READERS_DAMAGE_PARTS_INDEX_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/record_error.h"
#include "readers/container/container.h"
#include "readers/container/index_memory.h"
#include "readers/container/record_index.h"
#include "readers/damage/parts.h"
#include "readers/record.h"

// The index of a damaged shard of another container than TFRecord: its records, and each stretch of
// damage (damage/parts.h) as one record more, which is none.
//
// Nothing in the bytes of such a stretch says that it is damage, so that is kept beside the index.
// In the index a stretch has a length of 0: nothing of it is read, however long it is.

namespace millrace::readers {

// Which records of a shard are stretches of damage. Thread-compatible; immutable once it is made.
class DamagedParts {
 public:
  // REQUIRES: part.damage is not OK; the ordinals of parts go up.
  void Add(const ShardPart& part);

  size_t size() const { return parts_.size(); }
  bool empty() const { return parts_.empty(); }
  bool Contains(uint64_t ordinal) const { return Find(ordinal) != nullptr; }
  // DATA_LOSS with RecordError at this record of `file`. REQUIRES: Contains(ref.ordinal).
  absl::Status At(const std::string& file, const RecordRef& ref) const;
  uint64_t memory_bytes() const { return parts_.capacity() * sizeof(Part); }

 private:
  struct Part {
    uint64_t ordinal = 0;
    RecordErrorReason reason = RecordErrorReason::kUnknown;
    uint32_t text = 0;
  };

  const Part* Find(uint64_t ordinal) const;
  uint32_t NumberOf(std::string_view text);

  std::vector<Part> parts_;         // by ordinal
  std::vector<std::string> texts_;  // what is wrong with them; few are different
};

struct ResyncedParts {
  RecordIndex records;
  DamagedParts damaged;
};

// Goes through all of `shard`. `advanced` (may be empty) is called with the bytes gone through
// since.
//   RESOURCE_EXHAUSTED  there is no memory for the index, or more than 2^20 stretches are damage
//   other               the shard cannot be read
absl::StatusOr<ResyncedParts> ResyncParts(const InflatedShard& shard,
                                          const ContainerOptions& container,
                                          const FrameFormat& format, uint64_t max_record_bytes,
                                          const std::shared_ptr<IndexMemory>& memory,
                                          const std::function<void(uint64_t bytes)>& advanced);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DAMAGE_PARTS_INDEX_H_
