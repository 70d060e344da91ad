#ifndef MILLRACE_READERS_REPAIR_INTERNAL_H_
#define MILLRACE_READERS_REPAIR_INTERNAL_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "base/record_error.h"
#include "readers/container.h"
#include "readers/repair.h"

namespace millrace::readers {

// Repair of one file of another container than TFRecord: what is damage of it (shard_parts.h), and
// records at the offsets of `listed`, are left out. report.file and report.out are set.
//   INVALID_ARGUMENT  nothing can be left out of such a file
absl::Status RepairParts(const ContainerOptions& container, const RepairOptions& options,
                         const std::map<int64_t, RecordError>& listed, RepairedFile& report);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_REPAIR_INTERNAL_H_
