#ifndef MILLRACE_CLI_METRICS_EXPORTERS_H_
#define MILLRACE_CLI_METRICS_EXPORTERS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "cli/flags/command_line.h"
#include "cli/metrics/metrics_file.h"
#include "cli/metrics/process_metrics.h"
#include "cli/program.h"

namespace millrace::cli {

// The flags of commands whose metrics can be seen from outside.
struct ExporterFlags {
  std::string address;  // of the server; empty: there is none
  std::string file;     // of the lines; empty: there is none
  double every = 10;    // seconds from line to line
};
// Adds the flags; that of the server if the program has one. `flags` must live until the command
// line was parsed.
void AddExporterFlags(Command command, bool has_server, ExporterFlags& flags);

// Shows a registry outside of the program, as long as it stands.
struct Exporters {
  std::unique_ptr<ProcessMetrics> process;  // behind the others, which look at it at their end
  std::unique_ptr<MetricsFile> file;
  std::shared_ptr<void> server;
};
// `rank` is of this process, `local_rank` its number on this host. Errors name the flag.
//   INVALID_ARGUMENT  its value is wrong
//   other             the address cannot be had, or the file not be opened
absl::StatusOr<Exporters> OpenExporters(const ExporterFlags& flags, MetricsServing serve, int rank,
                                        int local_rank, const std::shared_ptr<Metrics>& metrics);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_METRICS_EXPORTERS_H_
