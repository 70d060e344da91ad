#ifndef MILLRACE_CLI_EMULATE_RUN_REPORT_H_
#define MILLRACE_CLI_EMULATE_RUN_REPORT_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/metrics.h"
#include "cli/emulate/run_stream.h"
#include "cli/emulate/step_sums.h"
#include "pipeline/diagnosis.h"

namespace millrace::cli {

// The damage that samples had, from a context's metrics.
struct DamageMet {
  int64_t records_bad = 0;
  std::map<std::string, int64_t> damaged;  // samples that a policy took out, by reason
};
DamageMet DamageOf(const Metrics& metrics);

// The bytes of shards behind URLs, from a context's metrics.
struct FetchMet {
  int64_t fetched_bytes = 0;
  int64_t record_bytes = 0;  // of the records that were read, with their frames

  // Bytes fetched for each byte of records; nullopt: no record was read of a URL.
  std::optional<double> ratio() const;
};
FetchMet FetchOf(const Metrics& metrics);

// The measurements of `millrace run`.
struct RunReport {
  int64_t samples = 0;
  uint64_t batches = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // processor time of the whole process
  StepSums steps;
  uint64_t digest = 0;
  DamageMet damage;
  FetchMet fetch;
  pipeline::Diagnosis diagnosis;  // behind the first batch
  absl::Status status;
};

// The emulated accelerator that the flags name, or null.
nlohmann::ordered_json AcceleratorJson(const RunFlags& flags);

// Prints one JSON object as a line of standard output; bytes that are not UTF-8 are replaced.
void PrintJson(const nlohmann::ordered_json& json);
// Prints the report of a run that measured nothing: {"error": ...}.
void PrintErrorJson(const absl::Status& status);
// Prints a line for each reason.
void PrintDamageText(const DamageMet& damage);

// Print on standard output: one JSON object, or text.
void PrintRunJson(const RunFlags& flags, const RunReport& report);
void PrintRunText(const RunFlags& flags, const RunReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_RUN_REPORT_H_
