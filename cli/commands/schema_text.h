#ifndef MILLRACE_CLI_COMMANDS_SCHEMA_TEXT_H_
#define MILLRACE_CLI_COMMANDS_SCHEMA_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "readers/inspect.h"
#include "readers/scan.h"

namespace millrace::cli {

// A stage of a plan that parses records of `kind` as `report` found them, and for CSV, JSON lines
// and tars the --schema of convert. Lines that begin with # say how the types were guessed, and
// which features no stage can parse.
//   INVALID_ARGUMENT  records of this kind have no features, or the report has none
absl::StatusOr<std::string> SchemaText(const readers::InspectReport& report,
                                       const readers::ScanKind& kind);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_COMMANDS_SCHEMA_TEXT_H_
