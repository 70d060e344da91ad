#ifndef MILLRACE_READERS_DAMAGE_PARTS_WALK_H_
#define MILLRACE_READERS_DAMAGE_PARTS_WALK_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/record_error.h"
#include "readers/container.h"
#include "readers/damage/parts.h"

namespace millrace::readers {

// The bytes that WalkParts goes through.
struct PartsInput {
  const RandomAccessFile& file;
  bool plain = true;                // true if the file is not inflated
  std::span<const LostBytes> lost;  // in order; one of no bytes may stand at the end
  const ContainerOptions& container;
  uint64_t max_record_bytes = 0;
};

// Tells of parts in order and counts them. Thread-compatible.
class PartTeller {
 public:
  // `on_run` may be null.
  PartTeller(const std::string& path, const OnPart& on_part, const OnRun* on_run)
      : path_(path), on_part_(on_part), on_run_(on_run) {}

  uint64_t ordinal() const { return ordinal_; }
  bool takes_runs() const { return on_run_ != nullptr; }
  // REQUIRES: takes_runs()
  absl::Status Run(const RecordRun& run) {
    ordinal_ += run.count;
    return (*on_run_)(run);
  }
  absl::Status Record(uint64_t offset, std::string_view framed, std::string_view payload);
  absl::Status Damage(uint64_t offset, uint64_t bytes, RecordErrorReason reason,
                      std::string_view text);
  // The row that names the columns: it is no record.
  absl::Status Header(uint64_t offset, uint64_t bytes, std::string_view text);
  // Tells of bytes that were lost of a stream.
  absl::Status Lost(uint64_t offset, uint64_t bytes, absl::Status damage);

 private:
  ShardPart Part(uint64_t offset, uint64_t bytes) const;
  absl::Status Tell(const ShardPart& part);
  RecordError Place(uint64_t offset, RecordErrorReason reason) const;

  const std::string& path_;
  const OnPart& on_part_;
  const OnRun* const on_run_;
  uint64_t ordinal_ = 0;
};

// WalkParts of lines and rows of CSV.
absl::Status WalkLineParts(const PartsInput& input, PartTeller& teller);
// WalkParts of a tar.
absl::Status WalkTarParts(const PartsInput& input, PartTeller& teller);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DAMAGE_PARTS_WALK_H_
