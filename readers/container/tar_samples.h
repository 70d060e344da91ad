#ifndef MILLRACE_READERS_CONTAINER_TAR_SAMPLES_H_
#define MILLRACE_READERS_CONTAINER_TAR_SAMPLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"
#include "readers/container/record_index.h"

namespace millrace::readers {

// The first damage of an archive. It is part of one sample, the first that is not whole.
struct TarDamage {
  uint64_t offset = 0;  // begin of that sample
  RecordErrorReason reason = RecordErrorReason::kUnknown;
  std::string text;
  uint64_t go_on_at = 0;  // where the next member may begin, at the earliest
  // The key of that sample, to which members behind the damage may belong too. Nullopt: any sample
  // behind the damage may lack a member.
  std::optional<std::string> key;
};

// The samples of an archive up to its end or its first damage.
struct TarSamples {
  std::vector<uint64_t> begins;  // of whole samples, and the end of the last
  std::optional<TarDamage> damage;

  uint64_t count() const { return begins.size() - 1; }
};

// Walks the members of `file`, and tells which sample the first damage is part of. A member whose
// header is good is of the sample that its name says, also if its bytes are cut off. A header that
// is not may be of the sample in front of it or of one behind it, so neither is known to be whole.
//   other  the file cannot be read
absl::StatusOr<TarSamples> FindTarSamples(const RandomAccessFile& file, const WalkOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_TAR_SAMPLES_H_
