#include "cli/tune/trials.h"

#include <algorithm>
#include <chrono>

#include "base/host.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

// Batches of a turn, and the most turns that it may take to make them.
constexpr int64_t kLeastBatches = 4;
constexpr double kMostTurns = 10;
// The part of a turn for which a pipeline that was just opened runs unmeasured.
constexpr double kWarmUp = 0.3;

}  // namespace

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status Trials::Open(const Settings& settings) {
  if (settings_ == settings) return absl::OkStatus();
  settings_.reset();
  stretch_.reset();
  MILLRACE_RETURN_IF_ERROR(target_.Open(settings));
  settings_ = settings;
  return absl::OkStatus();
}

// A value of the plan is seen in place of a default, which then is of no interest.
absl::StatusOr<Defaults> Trials::FindDefaults(const Settings& own) {
  MILLRACE_RETURN_IF_ERROR(Open(own));
  Defaults defaults{.threads = target_.default_threads()};
  defaults.ring = std::max(1, target_.pipeline().Profile().ring);
  defaults.memory_budget_mib = static_cast<int>(target_.context().memory_budget_bytes() >> 20);
  defaults.cores = ReadCores().usable;
  return defaults;
}

absl::Status Trials::Take(Count& count) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, target_.Next());
  if (samples.has_value()) {
    ++count.batches;
    count.samples += *samples;
  } else if (stretch_.has_value()) {
    stretch_.emplace(target_.pipeline(), target_.context());
  }
  return absl::OkStatus();
}

absl::StatusOr<Trials::Count> Trials::RunFor(double seconds, int64_t batches) {
  const double begin = SecondsNow();
  Count count;
  while (true) {
    const double passed = SecondsNow() - begin;
    const bool is_long = passed >= kMostTurns * turn_seconds_ && count.batches > 0;
    if (is_long || (passed >= seconds && count.batches >= batches)) return count;
    MILLRACE_RETURN_IF_ERROR(Take(count));
  }
}

// A stretch that has just begun, with the stream, tells nothing.
void Trials::Diagnose(const Settings& settings) {
  pipeline::Diagnosis diagnosis = stretch_->Diagnose(target_.diagnosis_options());
  if (diagnosis.binding.empty()) return;
  std::erase_if(diagnoses_, [&](const auto& one) { return one.first == settings; });
  diagnoses_.emplace_back(settings, std::move(diagnosis));
}

std::optional<pipeline::Diagnosis> Trials::DiagnosisOf(const Settings& settings) const {
  for (const auto& [of, diagnosis] : diagnoses_) {
    if (of == settings) return diagnosis;
  }
  return std::nullopt;
}

absl::StatusOr<double> Trials::Turn(const Settings& settings) {
  MILLRACE_RETURN_IF_ERROR(Open(settings));
  if (!stretch_.has_value()) {
    MILLRACE_RETURN_IF_ERROR(RunFor(kWarmUp * turn_seconds_, 1).status());
    stretch_.emplace(target_.pipeline(), target_.context());
  }
  const double begin = SecondsNow();
  MILLRACE_ASSIGN_OR_RETURN(const Count count, RunFor(turn_seconds_, kLeastBatches));
  const double seconds = SecondsNow() - begin;
  Diagnose(settings);
  return static_cast<double>(count.samples) / std::max(seconds, 1e-9);
}

}  // namespace millrace::cli
