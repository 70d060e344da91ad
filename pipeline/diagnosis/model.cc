#include "pipeline/diagnosis/model.h"

#include <algorithm>
#include <cmath>

namespace millrace::pipeline {
namespace {

// A cause of waits counts from this fraction of the time on, and from this part of the most
// frequent cause.
constexpr double kLeastWait = 0.01;
constexpr double kLeastPart = 0.1;
constexpr double kSteepness = 1.0 / 6;
// Foreign load below this number of cores is the system's own.
constexpr double kLeastForeign = 0.05;
// A prediction goes no further from the plain minimum than this.
constexpr double kLeastEfficiency = 0.2;
constexpr double kMostEfficiency = 1.1;

double Inverse(double seconds) { return seconds > 0 ? 1 / seconds : kNoLimit; }

// Others were slowed down as much as the workers were, so they want more than they had.
double ForeignCores(const PipelineProfile& profile, const HostUse& host,
                    const DiagnosisOptions& options) {
  const double had = OtherCores(profile, host, options);
  return had < kLeastForeign ? 0 : had / ProcessorShare(profile);
}

// Fills in the limits of the causes for which the consumer waited notably. The most frequent one
// allows today's rate. One with half of its time allows 12 % more, one with a tenth 47 %.
void AddLimitsOfWaits(const PipelineProfile& profile, Model& model) {
  const auto elapsed = static_cast<double>(std::max<int64_t>(0, profile.elapsed_ns));
  const int64_t most = *std::ranges::max_element(profile.wait_ns);
  for (size_t i = 0; i < kNumWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    const auto wait = static_cast<double>(profile.wait_ns[i]);
    const double part = Ratio(wait, static_cast<double>(most));
    if (cause == WaitCause::kWork || wait < kLeastWait * elapsed || part < kLeastPart) continue;
    if (cause == WaitCause::kHandOff) {
      model.hand_off_seconds = Ratio(1e-9 * wait, Sane(static_cast<double>(profile.rows)));
      continue;
    }
    double& allows = model.by_waits[static_cast<size_t>(LimitOf(cause))];
    allows = std::min(allows, model.rate / std::pow(part, kSteepness));
  }
}

// True if reads are under way nearly all the time and take longer than they would alone: storage
// has enough to do.
bool StorageIsBusy(const PipelineProfile& profile) {
  const ReadProfile& reads = profile.reads;
  const double under_way =
      Ratio(Sane(static_cast<double>(reads.any_ns)), Sane(static_cast<double>(profile.elapsed_ns)));
  const double mean =
      Ratio(Sane(static_cast<double>(reads.ns)), Sane(static_cast<double>(reads.groups)));
  const auto alone = static_cast<double>(reads.group_ns.Quantile(0.05));
  return under_way >= 0.9 && mean >= 2 * alone;
}

// While the budget is awaited storage may be the limit as well, and more room changes nothing.
void AddStorageBehindBudget(const PipelineProfile& profile, Model& model) {
  const double budget = model.by_waits[static_cast<size_t>(Limit::kBudget)];
  double& reading = model.by_waits[static_cast<size_t>(Limit::kReading)];
  if (std::isfinite(budget) && StorageIsBusy(profile)) reading = std::min(reading, budget);
}

double CoresAllow(const Model& model) {
  if (model.worker_seconds <= 0) return kNoLimit;
  return std::min(model.threads / model.worker_seconds,
                  model.share() / (model.worker_seconds + model.other_seconds));
}

}  // namespace

double Sane(double number) { return std::isfinite(number) && number > 0 ? number : 0; }

double Ratio(double a, double b) { return b > 0 ? Sane(a / b) : 0; }

double Model::share() const {
  const auto among = [this](double own) {
    return std::max(cores - foreign, cores * own / (own + foreign));
  };
  if (foreign <= 0) return cores;
  const double part = std::clamp(2 - foreign / cores, 0.0, 1.0);
  return among(threads_now) + part * (among(threads) - among(threads_now));
}

double Model::Allows(Limit limit) const {
  const double told = by_waits[static_cast<size_t>(limit)];
  switch (limit) {
    case Limit::kWorkers:
      return CoresAllow(*this);
    case Limit::kSerial:
      return std::min(told, Inverse(serial_seconds));
    case Limit::kConsumer:
      return Inverse(consumer_seconds);
    case Limit::kHandOff:
      return hand_off_seconds > 0 ? Inverse(consumer_seconds + hand_off_seconds) : kNoLimit;
    case Limit::kReading:
    case Limit::kBudget:
    case Limit::kRing:
    case Limit::kStart:
    case Limit::kSource:
      break;
  }
  return told;
}

double Model::least() const {
  double least = kNoLimit;
  for (size_t i = 0; i < kNumLimits; ++i) least = std::min(least, Allows(static_cast<Limit>(i)));
  return least;
}

double Model::Rate() const {
  const double most = least();
  if (!std::isfinite(most)) return rate;
  return std::min(efficiency * most, Allows(Limit::kConsumer));
}

double ProcessorShare(const PipelineProfile& profile) {
  if (profile.clocked_ns <= 0 || profile.clocked_cpu_ns <= 0) return 1;
  const double share =
      static_cast<double>(profile.clocked_cpu_ns) / static_cast<double>(profile.clocked_ns);
  return std::clamp(share, 0.01, 1.0);
}

double HostSeconds(const PipelineProfile& profile, const HostUse& host) {
  const double seconds = Sane(host.now_seconds);
  return seconds > 0 ? seconds : Sane(1e-9 * static_cast<double>(profile.elapsed_ns));
}

double OtherCores(const PipelineProfile& profile, const HostUse& host,
                  const DiagnosisOptions& options) {
  const double had = Ratio(host.foreign_core_seconds().value_or(0), HostSeconds(profile, host));
  const double spare = std::max(0.0, Sane(options.processors) - Sane(options.cores));
  return std::max(0.0, had - spare);
}

double WorkedSamples(const PipelineProfile& profile) {
  return static_cast<double>(profile.worked_rows > 0 ? profile.worked_rows
                                                     : std::max<int64_t>(0, profile.rows));
}

Limit LimitOf(WaitCause cause) {
  switch (cause) {
    case WaitCause::kWork:
      return Limit::kWorkers;
    case WaitCause::kReading:
      return Limit::kReading;
    case WaitCause::kBudget:
      return Limit::kBudget;
    case WaitCause::kOrder:
      return Limit::kSerial;
    case WaitCause::kRing:
      return Limit::kRing;
    case WaitCause::kWorkers:
      return Limit::kStart;
    case WaitCause::kSource:
      return Limit::kSource;
    case WaitCause::kHandOff:
      return Limit::kHandOff;
  }
  return Limit::kWorkers;
}

Model MakeModel(const PipelineProfile& profile, const HostUse& host,
                const DiagnosisOptions& options) {
  Model model;
  model.by_waits.fill(kNoLimit);
  const double seconds = 1e-9 * static_cast<double>(profile.elapsed_ns);
  const double rows = Sane(static_cast<double>(profile.rows));
  const double worked = WorkedSamples(profile);
  const double waits = 1e-9 * static_cast<double>(profile.wait_total_ns());
  const double busy = 1e-9 * static_cast<double>(profile.busy_ns) * ProcessorShare(profile);
  model.rate = Ratio(rows, seconds);
  model.worker_seconds = Ratio(busy, worked);
  model.other_seconds = Ratio(host.process_seconds() - busy, rows);
  model.serial_seconds = Ratio(1e-9 * static_cast<double>(profile.serial_ns), worked);
  const double pace = Sane(options.pace);
  model.consumer_seconds = pace > 0 ? 1 / pace : Ratio(seconds - waits, rows);
  model.threads = model.threads_now = std::max(1, profile.workers);
  const double stolen = Ratio(host.stolen_core_seconds.value_or(0), HostSeconds(profile, host));
  model.cores = std::max(0.1, Sane(options.cores) - stolen);
  model.foreign = ForeignCores(profile, host, options);
  if (waits >= 0.05 * seconds) {
    AddLimitsOfWaits(profile, model);
    AddStorageBehindBudget(profile, model);
  }
  const double least = model.least();
  if (std::isfinite(least)) {
    model.efficiency = std::clamp(Ratio(model.rate, least), kLeastEfficiency, kMostEfficiency);
  }
  return model;
}

}  // namespace millrace::pipeline
