#include "cli/run_max.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/host.h"
#include "base/status.h"
#include "cli/emulator.h"
#include "cli/run_report.h"

namespace millrace::cli {
namespace {

constexpr double kDefaultSeconds = 10;

double SecondsOf(const RunFlags& flags) {
  return flags.seconds > 0 ? flags.seconds : kDefaultSeconds;
}

// Takes batches until `end`; returns how many samples they had.
absl::StatusOr<int64_t> Take(pipeline::Pipeline& stream, Emulator& emulator, double end) {
  int64_t samples = 0;
  while (true) {
    emulator.SleepUntilFree(end);
    if (emulator.now() >= end) return samples;
    emulator.Ask();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream.Next());
    if (!batch.has_value()) {
      return absl::FailedPreconditionError("the stream ended: --find-max needs one without end");
    }
    emulator.Deliver(batch->num_valid_rows());
    samples += batch->num_valid_rows();
  }
}

absl::StatusOr<FeedTrial> Try(const RunFlags& flags, pipeline::Pipeline& stream, int count,
                              double seconds_per_sample) {
  Emulator emulator(EmulatorClock::Steady(), count, seconds_per_sample);
  double start = emulator.now();
  do {
    MILLRACE_RETURN_IF_ERROR(Take(stream, emulator, start + flags.warmup).status());
    start += std::max(flags.warmup, 0.1);
  } while (!emulator.all_started());
  emulator.Measure();
  const double begin = emulator.now();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t samples,
                            Take(stream, emulator, begin + SecondsOf(flags)));
  const double seconds = emulator.now() - begin;
  emulator.CountIdle();
  return FeedTrial{count, emulator.sums().utilisation(), static_cast<double>(samples) / seconds};
}

}  // namespace

absl::StatusOr<MaxReport> FindMaxOf(const RunFlags& flags, pipeline::Pipeline& stream) {
  const double rate = SamplesPerSecondOf(flags);
  MILLRACE_ASSIGN_OR_RETURN(const FeedTrial alone, Try(flags, stream, 1, 0));
  MaxReport report{.alone = alone.samples_per_second, .fed = {}};
  const auto attempt = [&](int count) { return Try(flags, stream, count, 1 / rate); };
  MILLRACE_ASSIGN_OR_RETURN(report.fed,
                            FindMaxFed(report.alone / (rate * kFedUtilisation), attempt));
  return report;
}

void PrintMaxJson(const RunFlags& flags, const MaxReport& report) {
  nlohmann::ordered_json tries = nlohmann::ordered_json::array();
  for (const FeedTrial& trial : report.fed.trials) {
    tries.push_back({{"accelerators", trial.accelerators},
                     {"au", trial.utilisation},
                     {"samples_per_second", trial.samples_per_second}});
  }
  const nlohmann::ordered_json json{
      {"max_accelerators", report.fed.accelerators},
      {"accelerator", AcceleratorJson(flags)},
      {"au_limit", kFedUtilisation},
      {"usable_cores", ReadCores().usable},
      {"threads", flags.threads},
      {"stream_samples_per_second", report.alone},
      {"stream_accelerators", report.alone / SamplesPerSecondOf(flags)},
      {"seconds_per_try", SecondsOf(flags)},
      {"warmup_seconds", flags.warmup},
      {"tries", tries},
      {"peak_rss_bytes", PeakRssBytes()}};
  std::puts(json.dump().c_str());
}

void PrintMaxText(const RunFlags& flags, const MaxReport& report) {
  const double rate = SamplesPerSecondOf(flags);
  absl::PrintF("the stream alone: %.0f samples/s, as %.2f accelerators of %.0f img/s take\n",
               report.alone, report.alone / rate, rate);
  for (const FeedTrial& trial : report.fed.trials) {
    absl::PrintF("%4d emulated: utilisation %.3f, %.0f samples/s\n", trial.accelerators,
                 trial.utilisation, trial.samples_per_second);
  }
  absl::PrintF("%d emulated accelerators%s fed at a utilisation of %.2f or more\n",
               report.fed.accelerators, flags.accelerator.empty() ? "" : " " + flags.accelerator,
               kFedUtilisation);
  absl::PrintF(
      "tries of %g s, each after %g s and every accelerator's first step; %d usable cores\n",
      SecondsOf(flags), flags.warmup, ReadCores().usable);
}

}  // namespace millrace::cli
