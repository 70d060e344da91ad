#include "cli/emulate/run_max.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/host.h"
#include "base/status.h"
#include "cli/emulate/emulator.h"
#include "cli/wait/progress.h"

namespace millrace::cli {
namespace {

constexpr double kDefaultSeconds = 10;
constexpr double kDefaultWarmup = 2;
constexpr double kForEver = std::numeric_limits<double>::infinity();

double WarmupOf(const RunFlags& flags) { return flags.warmup >= 0 ? flags.warmup : kDefaultWarmup; }

double SecondsOf(const RunFlags& flags) {
  return flags.seconds > 0 ? flags.seconds : kDefaultSeconds;
}

std::string TrialName(int count, double seconds_per_sample) {
  if (seconds_per_sample <= 0) return "the stream alone";
  return absl::StrCat(count, count == 1 ? " accelerator" : " accelerators");
}

// Trials on one stream, which continues from each to the next.
class Search {
 public:
  Search(const RunFlags& flags, pipeline::Pipeline& stream) : flags_(flags), stream_(stream) {}

  absl::StatusOr<FeedTrial> Try(int count, double seconds_per_sample) {
    if (!flags_.top) {
      progress_.emplace(TrialName(count, seconds_per_sample), "samples");
      progress_->SetLimit(WarmupOf(flags_) + SecondsOf(flags_));
    }
    Emulator emulator(EmulatorClock::Steady(), count, seconds_per_sample);
    double start = emulator.now();
    do {
      MILLRACE_RETURN_IF_ERROR(Take(emulator, start + WarmupOf(flags_)).status());
      start += std::max(WarmupOf(flags_), 0.1);
    } while (!emulator.all_started());
    emulator.Measure();
    const double begin = emulator.now();
    MILLRACE_ASSIGN_OR_RETURN(int64_t samples, Take(emulator, begin + SecondsOf(flags_)));
    if (emulator.sums().waits().count() == 0) {
      // All were busy with a step from before the trial, whose waits are not known.
      emulator.SleepUntilFree(kForEver);
      MILLRACE_ASSIGN_OR_RETURN(const int64_t taken, TakeOne(emulator));
      samples += taken;
    }
    const double seconds = emulator.now() - begin;
    emulator.CountIdle();
    return FeedTrial{count, emulator.sums().utilisation().value_or(0),
                     static_cast<double>(samples) / seconds};
  }

 private:
  // Takes batches until `end`; returns how many samples they had.
  absl::StatusOr<int64_t> Take(Emulator& emulator, double end) {
    int64_t samples = 0;
    while (true) {
      emulator.SleepUntilFree(end);
      if (emulator.now() >= end) return samples;
      MILLRACE_ASSIGN_OR_RETURN(const int64_t taken, TakeOne(emulator));
      samples += taken;
    }
  }

  // The accelerator that is free takes a batch; returns how many samples it has.
  absl::StatusOr<int64_t> TakeOne(Emulator& emulator) {
    emulator.Ask();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream_.Next());
    if (!batch.has_value()) {
      return absl::FailedPreconditionError("the stream ended: --find-max needs one without end");
    }
    const int64_t samples = batch->num_valid_rows();
    SayWhenLong(static_cast<double>(samples) / SamplesPerSecondOf(flags_));
    emulator.Deliver(samples);
    if (progress_) progress_->Add(samples);
    return samples;
  }

  void SayWhenLong(double step_seconds) {
    if (said_ || step_seconds <= SecondsOf(flags_)) return;
    said_ = true;
    absl::FPrintF(stderr,
                  "millrace: warning: a step takes %.4g s, longer than --seconds %.4g: each try "
                  "takes as long\n",
                  step_seconds, SecondsOf(flags_));
  }

  const RunFlags& flags_;
  pipeline::Pipeline& stream_;
  std::optional<Progress> progress_;  // of the trial; not with --top
  bool said_ = false;                 // true if the message about long steps was printed
};

}  // namespace

MaxReport FindMaxOf(const RunFlags& flags, RunStream& stream) {
  MaxReport report;
  Search search(flags, *stream.pipeline);
  const double rate = SamplesPerSecondOf(flags);
  const auto alone = search.Try(1, 0);
  if (alone.ok()) {
    report.alone = alone->samples_per_second;
    report.fed = FindMaxFed(*report.alone / (rate * kFedUtilisation),
                            [&](int count) { return search.Try(count, 1 / rate); });
  } else {
    report.fed.status = alone.status();
  }
  report.damage = DamageOf(stream.context->metrics());
  return report;
}

void PrintMaxJson(const RunFlags& flags, const MaxReport& report) {
  nlohmann::ordered_json tries = nlohmann::ordered_json::array();
  for (const FeedTrial& trial : report.fed.trials) {
    tries.push_back({{"accelerators", trial.accelerators},
                     {"au", trial.utilisation},
                     {"samples_per_second", trial.samples_per_second}});
  }
  nlohmann::ordered_json json{{"max_accelerators", report.fed.accelerators},
                              {"or_more", report.fed.or_more},
                              {"accelerator", AcceleratorJson(flags)},
                              {"au_limit", kFedUtilisation},
                              {"usable_cores", ReadCores().usable},
                              {"threads", flags.threads},
                              {"stream_samples_per_second", nullptr},
                              {"stream_accelerators", nullptr},
                              {"seconds_per_try", SecondsOf(flags)},
                              {"warmup_seconds", WarmupOf(flags)},
                              {"tries", tries},
                              {"records_bad", report.damage.records_bad},
                              {"records_damaged", report.damage.damaged},
                              {"peak_rss_bytes", PeakRssBytes()}};
  if (report.alone) {
    json["stream_samples_per_second"] = *report.alone;
    json["stream_accelerators"] = *report.alone / SamplesPerSecondOf(flags);
  }
  if (!report.fed.status.ok()) {
    json["max_accelerators"] = nullptr;
    json["error"] = std::string(report.fed.status.message());
  }
  PrintJson(json);
}

void PrintMaxText(const RunFlags& flags, const MaxReport& report) {
  const double rate = SamplesPerSecondOf(flags);
  if (report.alone) {
    absl::PrintF("the stream alone: %.0f samples/s, as %.2f accelerators of %.0f img/s take\n",
                 *report.alone, *report.alone / rate, rate);
  }
  for (const FeedTrial& trial : report.fed.trials) {
    absl::PrintF("%4d emulated: utilisation %.3f, %.0f samples/s\n", trial.accelerators,
                 trial.utilisation, trial.samples_per_second);
  }
  PrintDamageText(report.damage);
  if (!report.fed.status.ok()) return;
  absl::PrintF("%d%s emulated accelerator%s%s fed at a utilisation of %.2f or more\n",
               report.fed.accelerators, report.fed.or_more ? " or more" : "",
               report.fed.accelerators == 1 ? "" : "s",
               flags.accelerator.empty() ? "" : " " + flags.accelerator, kFedUtilisation);
  absl::PrintF(
      "tries of %g s, each after %g s and every accelerator's first step; %d usable cores\n",
      SecondsOf(flags), WarmupOf(flags), ReadCores().usable);
}

}  // namespace millrace::cli
