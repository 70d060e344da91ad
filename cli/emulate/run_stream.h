#ifndef MILLRACE_CLI_EMULATE_RUN_STREAM_H_
#define MILLRACE_CLI_EMULATE_RUN_STREAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "base/metrics.h"
#include "cli/flags/trace.h"
#include "cli/metrics/exporters.h"
#include "pipeline/diagnosis.h"
#include "pipeline/op_table.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

namespace millrace::cli {

// The flags of `millrace run`.
struct RunFlags {
  std::string file;
  std::vector<std::string> variables;
  uint64_t batches = 0;
  double seconds = 0;
  int threads = 0;                 // 0: as the plan says
  uint64_t memory_budget_mib = 0;  // 0: as the plan says
  int io_threads = 0;              // 0: as the plan says
  double pace = 0;
  std::string accelerator;
  int accelerators = 1;
  bool find_max = false;  // true to find the most accelerators that the stream feeds
  double warmup = -1;     // seconds; negative: not given
  int rank = 0;
  int world = 1;
  int prefetch = 0;
  bool adapt = true;    // true if the pipeline uses no more threads than its consumer needs
  bool digest = false;  // true to print the digest of the batches
  bool json = false;    // true to print the report as JSON
  std::optional<std::string> resume;
  std::string token_file;
  bool force = false;  // true to take a token of another plan or data
  std::string audit;
  std::string dump;  // folder of the batches' files; empty: none are written
  std::string quarantine;
  bool top = false;  // true to show the figures of `millrace top` while it runs
  ExporterFlags exporters;
  TraceFlags trace;
};

// The samples that an emulated accelerator takes per second; 0: there is none.
double SamplesPerSecondOf(const RunFlags& flags);

// The pipeline that the flags name. Its parts are destroyed in reverse order.
struct RunStream {
  pipeline::Plan plan;
  std::shared_ptr<Context> context;
  pipeline::OpenOptions options;
  std::unique_ptr<pipeline::Pipeline> pipeline;
};

// The facts for a diagnosis of the flags' pipeline.
pipeline::DiagnosisOptions DiagnosisOptionsOf(const RunFlags& flags, const RunStream& stream);

// Opens a plan; indexing shows its progress. `ops` are for its custom stages, or null; `metrics`
// receives the metrics, or is null.
absl::StatusOr<RunStream> OpenRunStream(const RunFlags& flags, pipeline::Plan plan,
                                        std::shared_ptr<const pipeline::OpTable> ops = nullptr,
                                        std::shared_ptr<Metrics> metrics = nullptr);
// Opens the plan that the flags name; indexing shows its progress.
//   Errors are those of Plan and Pipeline::Open.
absl::StatusOr<RunStream> OpenRunStream(const RunFlags& flags,
                                        const std::map<std::string, std::string>& variables,
                                        std::shared_ptr<Metrics> metrics = nullptr);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_RUN_STREAM_H_
