#ifndef MILLRACE_CLI_RUN_REPORT_H_
#define MILLRACE_CLI_RUN_REPORT_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "cli/run_stream.h"
#include "cli/step_sums.h"

namespace millrace::cli {

// What `millrace run` has measured.
struct RunReport {
  int64_t samples = 0;
  uint64_t batches = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of the whole process
  StepSums steps;
  uint64_t digest = 0;
  int64_t records_bad = 0;
  std::map<std::string, int64_t> damaged;  // samples that a policy took out, by reason
  absl::Status status;
};

// The emulated accelerator that the flags name, or null.
nlohmann::ordered_json AcceleratorJson(const RunFlags& flags);

// On standard output: one JSON object, or text.
void PrintRunJson(const RunFlags& flags, const RunReport& report);
void PrintRunText(const RunFlags& flags, const RunReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_RUN_REPORT_H_
