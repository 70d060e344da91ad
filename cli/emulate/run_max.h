#ifndef MILLRACE_CLI_EMULATE_RUN_MAX_H_
#define MILLRACE_CLI_EMULATE_RUN_MAX_H_

#include <optional>

#include "cli/emulate/max_fed.h"
#include "cli/emulate/run_report.h"
#include "cli/emulate/run_stream.h"

namespace millrace::cli {

// `millrace run --find-max`: how many emulated accelerators this host feeds. First the stream runs
// without any, which tells where to begin; then numbers of them are tried (FindMaxFed), each on the
// same stream, which goes on. Before each the warm-up is left out: flags.warmup seconds, and the
// first step of every accelerator, so that what was made ahead while nobody asked is used up. A try
// goes on until a step was counted, so it may take as long as a step; where that is longer than a
// try should take, standard error says so once.
struct MaxReport {
  // Samples per second of the stream without accelerators; nullopt: not measured.
  std::optional<double> alone;
  MaxFed fed;        // its status is of the whole search
  DamageMet damage;  // that was met from the first batch on
};

// The status in the report:
//   FAILED_PRECONDITION  the stream ends
//   other                the stream's errors
MaxReport FindMaxOf(const RunFlags& flags, RunStream& stream);

// On standard output: one JSON object, or text.
void PrintMaxJson(const RunFlags& flags, const MaxReport& report);
void PrintMaxText(const RunFlags& flags, const MaxReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_RUN_MAX_H_
