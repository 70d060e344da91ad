#include "cli/emulate/analyze.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/host.h"
#include "base/status.h"
#include "cli/diagnose/diagnosis_json.h"
#include "cli/emulate/emulator.h"
#include "cli/emulate/run_report.h"
#include "cli/wait/progress.h"
#include "pipeline/stretch.h"

namespace millrace::cli {
namespace {

constexpr double kDefaultSeconds = 10;
// The unmeasured time behind the first batch: this part of the measured time, and so much at most.
constexpr double kWarmupPart = 0.1;
constexpr double kMostWarmup = 1;

// Takes batches as an accelerator of the flags' pace does, or without a pause.
class Analysis {
 public:
  Analysis(const RunFlags& flags, RunStream& stream)
      : stream_(stream),
        rate_(SamplesPerSecondOf(flags)),
        seconds_(flags.seconds > 0 ? flags.seconds : kDefaultSeconds),
        emulator_(EmulatorClock::Steady(), 1, rate_ > 0 ? 1 / rate_ : 0) {}

  absl::StatusOr<pipeline::Diagnosis> Run() {
    pipeline::Stretch stretch(*stream_.pipeline, *stream_.context);
    MILLRACE_RETURN_IF_ERROR(TakeOne());
    MILLRACE_RETURN_IF_ERROR(
        TakeUntil(emulator_.now() + std::min(kMostWarmup, kWarmupPart * seconds_)));
    // A stream that is over so soon is measured from its start.
    if (!ended_) stretch.Begin();
    MILLRACE_RETURN_IF_ERROR(TakeUntil(emulator_.now() + seconds_));
    pipeline::DiagnosisOptions options =
        pipeline::DiagnosisOptionsOf(stream_.plan, *stream_.pipeline);
    options.pace = rate_;
    options.settings = {"--threads $0", "--memory-budget-mib $0", "--prefetch $0"};
    return stretch.Diagnose(options);
  }

 private:
  absl::Status TakeUntil(double end) {
    while (!ended_) {
      emulator_.SleepUntilFree(end);
      if (emulator_.now() >= end) break;
      MILLRACE_RETURN_IF_ERROR(TakeOne());
    }
    return absl::OkStatus();
  }

  absl::Status TakeOne() {
    emulator_.Ask();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream_.pipeline->Next());
    ended_ = !batch.has_value();
    if (ended_) return absl::OkStatus();
    emulator_.Deliver(batch->num_valid_rows());
    progress_.Add(1);
    return absl::OkStatus();
  }

  RunStream& stream_;
  const double rate_;     // samples per second; 0: as many as there are
  const double seconds_;  // to be measured
  Emulator emulator_;
  Progress progress_{"analyze", "batches"};
  bool ended_ = false;  // true once the stream is over
};

// "train.pbtxt  plan 6e1c09ab  20.0 s  avx512  2 workers  budget 2.0 GiB"
std::string TitleOf(const RunFlags& flags, const RunStream& stream,
                    const pipeline::Diagnosis& diagnosis) {
  return absl::StrFormat("%s  plan %08x  %.1f s  %s  %d worker%s  budget %s",
                         std::filesystem::path(flags.file).filename().string(),
                         static_cast<uint32_t>(stream.plan.Fingerprint() >> 32), diagnosis.seconds,
                         WidestIsa(), diagnosis.threads, diagnosis.threads == 1 ? "" : "s",
                         BytesText(static_cast<double>(stream.context->memory_budget_bytes())));
}

}  // namespace

absl::StatusOr<pipeline::Diagnosis> Analyze(const RunFlags& flags, RunStream& stream) {
  return Analysis(flags, stream).Run();
}

void PrintAnalysis(const RunFlags& flags, const RunStream& stream,
                   const pipeline::Diagnosis& diagnosis) {
  if (flags.json) return PrintJson(DiagnosisJson(diagnosis));
  const std::string title = TitleOf(flags, stream, diagnosis);
  for (const std::string& line : pipeline::FormatDiagnosis(title, diagnosis)) {
    std::puts(line.c_str());
  }
}

}  // namespace millrace::cli
