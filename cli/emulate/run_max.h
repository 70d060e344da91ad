#ifndef MILLRACE_CLI_EMULATE_RUN_MAX_H_
#define MILLRACE_CLI_EMULATE_RUN_MAX_H_

#include <optional>

#include "cli/emulate/max_fed.h"
#include "cli/emulate/run_report.h"
#include "cli/emulate/run_stream.h"

namespace millrace::cli {

// `millrace run --find-max`: how many emulated accelerators this host feeds. First the stream runs
// without any, which gives the first guess; then numbers of them are tried (FindMaxFed), one after
// the other on the same stream. Each trial leaves out a warm-up: flags.warmup seconds, and the
// first step of every accelerator, so that batches made ahead are used up. A trial goes on until a
// step was counted, so it may take as long as a step; if that is longer than a trial should take,
// standard error says so once.
struct MaxReport {
  // Samples per second of the stream without accelerators; nullopt: not measured.
  std::optional<double> alone;
  MaxFed fed;        // its status is that of the whole search
  DamageMet damage;  // the damage met from the first batch on
};

// The status in the report:
//   FAILED_PRECONDITION  the stream ends
//   other                the stream's errors
MaxReport FindMaxOf(const RunFlags& flags, RunStream& stream);

// Print on standard output: one JSON object, or text.
void PrintMaxJson(const RunFlags& flags, const MaxReport& report);
void PrintMaxText(const RunFlags& flags, const MaxReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_RUN_MAX_H_
