#ifndef MILLRACE_CLI_EMULATE_ANALYZE_H_
#define MILLRACE_CLI_EMULATE_ANALYZE_H_

#include "absl/status/statusor.h"
#include "cli/emulate/run_stream.h"
#include "pipeline/diagnosis.h"

namespace millrace::cli {

// Drives `stream` for flags.seconds (0: 10), at the pace of the flags if there is one, and
// diagnoses it. The first batch and the moment behind it are not measured. Ends earlier with the
// stream; the errors are those of Next.
absl::StatusOr<pipeline::Diagnosis> Analyze(const RunFlags& flags, RunStream& stream);

// Prints the diagnosis of `stream` on standard output: as one JSON object, or as a screen.
void PrintAnalysis(const RunFlags& flags, const RunStream& stream,
                   const pipeline::Diagnosis& diagnosis);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_ANALYZE_H_
