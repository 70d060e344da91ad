#include "cli/metrics/exporters.h"

#include <chrono>

#include "base/status.h"

namespace millrace::cli {

void AddExporterFlags(Command command, bool has_server, ExporterFlags& flags) {
  if (has_server) {
    command.Add("--metrics", flags.address,
                "Serve /metrics for Prometheus, /healthz and /readyz at [HOST:]PORT (host "
                "127.0.0.1; port 0: a free one)");
  }
  command.Add("--metrics-file", flags.file,
              "Append the metrics to this file, as lines of JSON, also at the end");
  command.Add("--metrics-every", flags.every, "Seconds between lines of --metrics-file")
      .Finite(0.01, 1e6)
      .ShowDefault();
}

absl::StatusOr<Exporters> OpenExporters(const ExporterFlags& flags, MetricsServing serve, int rank,
                                        int local_rank, const std::shared_ptr<Metrics>& metrics) {
  Exporters exporters;
  if (flags.file.empty() && flags.address.empty()) return exporters;
  exporters.process = std::make_unique<ProcessMetrics>(metrics);
  if (!flags.file.empty()) {
    const auto every = std::chrono::duration<double>(flags.every);
    auto file =
        MetricsFile::Open({.path = flags.file,
                           .every = std::chrono::duration_cast<std::chrono::milliseconds>(every),
                           .rank = rank},
                          metrics);
    if (!file.ok()) return Annotate(file.status(), "--metrics-file");
    exporters.file = *std::move(file);
  }
  if (!flags.address.empty()) {
    auto server = serve(flags.address, local_rank, metrics);
    if (!server.ok()) return Annotate(server.status(), "--metrics");
    exporters.server = *std::move(server);
  }
  return exporters;
}

}  // namespace millrace::cli
