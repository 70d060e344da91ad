#ifndef MILLRACE_READERS_TOOLS_REPAIR_H_
#define MILLRACE_READERS_TOOLS_REPAIR_H_

#include <cstdint>
#include <map>
#include <string_view>

#include "absl/status/status.h"
#include "base/record_error.h"
#include "readers/container.h"
#include "readers/repair.h"

namespace millrace::readers {

// Repair of one file of another container than TFRecord: what is damage of it (damage/parts.h), and
// records at the offsets of `listed`, are left out. report.file and report.out are set.
//   DATA_LOSS  the row that names the columns is damaged
// REQUIRES: not of fixed length and no IDX, of which nothing can be left out.
absl::Status RepairParts(const ContainerOptions& container, const RepairOptions& options,
                         const std::map<int64_t, RecordError>& listed, RepairedFile& report);

// Whether a pipeline, not the reader, found fault with a record.
bool IsOfContent(RecordErrorReason reason);

// DATA_LOSS at a place of a file.
absl::Status DamageAt(RecordError where, RecordErrorReason reason, std::string_view text);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_TOOLS_REPAIR_H_
