#ifndef MILLRACE_CLI_RUN_MAX_H_
#define MILLRACE_CLI_RUN_MAX_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "cli/max_fed.h"
#include "cli/run_stream.h"

namespace millrace::cli {

// `millrace run --find-max`: how many emulated accelerators this host feeds. First the stream runs
// without any, which tells where to begin; then numbers of them are tried (FindMaxFed), each on the
// same stream, which goes on. Before each the warm-up is left out: flags.warmup seconds, and the first
// step of every accelerator, so that what was made ahead while nobody asked is used up.
struct MaxReport {
  double alone = 0;  // samples per second of the stream without accelerators
  MaxFed fed;
};

//   FAILED_PRECONDITION  the stream ends
//   other                the stream's errors
absl::StatusOr<MaxReport> FindMaxOf(const RunFlags& flags, pipeline::Pipeline& stream);

// On standard output: one JSON object, or text.
void PrintMaxJson(const RunFlags& flags, const MaxReport& report);
void PrintMaxText(const RunFlags& flags, const MaxReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_RUN_MAX_H_
